//! The control plane as tests see it.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use axum::http::Request;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, api::PostParams};
use serde_json::json;

use super::{
    AuditLog, BinaryError, Error, Locator, Server, Signal, Tool,
    certificates::{Authority, Identity, signing_key},
    directory::{Directory, default_root},
    kubeconfig,
    ports::Port,
    processes::{Launch, Processes},
    servers, unique,
};

/// A probe that is not answered within this time has failed.
const PROBE_WITHIN: Duration = Duration::from_secs(5);

/// A running etcd and kube-apiserver, and kube-controller-manager when asked for.
///
/// Dropping it ends the servers and removes their data, and returns when both are gone.
pub struct ControlPlane {
    processes: Processes,
    authority: Authority,
    locator: Locator,
    admin: kube::Config,
    kubeconfig: PathBuf,
    audit: AuditLog,
    port: u16,
    etcd_port: u16,
    etcd_name: String,
}

/// How a control plane shall be. Everything has a default.
#[derive(Default)]
pub struct Builder {
    controllers: Vec<String>,
    locator: Option<Locator>,
    root: Option<PathBuf>,
    port: Port,
    etcd_port: Port,
    apiserver_arguments: Vec<String>,
}

impl Builder {
    /// Runs kube-controller-manager with exactly these controllers, named as its flag
    /// `--controllers` names them, for example `garbage-collector-controller`.
    #[must_use]
    pub fn controllers(mut self, names: &[&str]) -> Self {
        self.controllers = names.iter().map(|&name| name.to_owned()).collect();
        self
    }

    /// Where the binaries come from.
    #[must_use]
    pub fn locator(mut self, locator: Locator) -> Self {
        self.locator = Some(locator);
        self
    }

    /// Where the directory of the control plane is made.
    #[must_use]
    pub fn root(mut self, root: impl Into<PathBuf>) -> Self {
        self.root = Some(root.into());
        self
    }

    /// The port of the API server, this one or none.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Port::Only(port);
        self
    }

    /// The port of the API server if it is free, else any.
    #[must_use]
    pub fn preferred_port(mut self, port: u16) -> Self {
        self.port = Port::Prefer(port);
        self
    }

    /// The client port of etcd, this one or none.
    #[must_use]
    pub fn etcd_port(mut self, port: u16) -> Self {
        self.etcd_port = Port::Only(port);
        self
    }

    /// The client port of etcd if it is free, else any.
    #[must_use]
    pub fn preferred_etcd_port(mut self, port: u16) -> Self {
        self.etcd_port = Port::Prefer(port);
        self
    }

    /// One more argument for kube-apiserver.
    #[must_use]
    pub fn apiserver_argument(mut self, argument: impl Into<String>) -> Self {
        self.apiserver_arguments.push(argument.into());
        self
    }

    /// Raises it and returns when the API server is ready.
    pub async fn start(self) -> Result<ControlPlane, Error> {
        install_crypto_provider();
        let locator = self.locator.unwrap_or_else(Locator::from_environment);
        let etcd = locator.find(Tool::Etcd).await.map_err(Error::Binary)?;
        let apiserver = locator
            .find(Tool::KubeApiserver)
            .await
            .map_err(Error::Binary)?;

        let root = self.root.or_else(default_root);
        let root = root.ok_or(Error::Binary(BinaryError::NoCacheDirectory))?;
        let directory = Directory::create(&root).map_err(|source| Error::Directory {
            path: root.clone(),
            source,
        })?;
        let processes = Processes::new(directory)?;
        let authority = Authority::new().map_err(Error::Certificate)?;
        write_files(processes.directory(), &authority)?;
        let admin = authority.client("vidra-lab-admin", &["system:masters"]);
        let admin = admin.map_err(Error::Certificate)?;

        let etcd_name = unique("lab");
        let etcd_port = raise_etcd(&processes, &etcd, &etcd_name, self.etcd_port).await?;
        let launch = |port| {
            let mut arguments = servers::apiserver(processes.directory(), port, etcd_port);
            arguments.extend(self.apiserver_arguments.iter().cloned());
            Launch {
                program: apiserver.clone(),
                arguments,
            }
        };
        let probe = |port| probe_apiserver(kubeconfig::config(port, &authority, &admin));
        let port = processes
            .raise(Server::Apiserver, self.port, launch, probe)
            .await?;

        let kubeconfig = processes.directory().join("admin.kubeconfig");
        write_kubeconfig(&kubeconfig, port, &authority, &admin)?;
        let admin = kubeconfig::config(port, &authority, &admin)
            .map_err(|source| client_error("read the admin's credentials", source))?;
        let audit = AuditLog::new(processes.directory().join(servers::AUDIT_LOG));
        let plane = ControlPlane {
            processes,
            authority,
            locator,
            admin,
            kubeconfig,
            audit,
            port,
            etcd_port,
            etcd_name,
        };
        let controllers: Vec<&str> = self.controllers.iter().map(String::as_str).collect();
        if !controllers.is_empty() {
            plane.start_controllers(&controllers).await?;
        }
        Ok(plane)
    }
}

impl ControlPlane {
    /// etcd and kube-apiserver with all defaults.
    pub async fn start() -> Result<Self, Error> {
        Self::builder().start().await
    }

    /// Anything else.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Access as cluster administrator.
    pub fn config(&self) -> kube::Config {
        self.admin.clone()
    }

    /// A fresh client of the cluster administrator, for the present runtime only.
    pub fn client(&self) -> Result<kube::Client, Error> {
        to_client(self.config())
    }

    /// A kubeconfig file of the cluster administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Access as somebody else, by client certificate; at most two groups.
    pub fn config_as(&self, user: &str, groups: &[&str]) -> Result<kube::Config, Error> {
        let identity = self.identity(user, groups)?;
        kubeconfig::config(self.port, &self.authority, &identity)
            .map_err(|source| client_error("read fresh credentials", source))
    }

    /// A fresh client of somebody else, for the present runtime only.
    pub fn client_as(&self, user: &str, groups: &[&str]) -> Result<kube::Client, Error> {
        to_client(self.config_as(user, groups)?)
    }

    /// A kubeconfig file of somebody else.
    pub fn kubeconfig_as(&self, user: &str, groups: &[&str]) -> Result<PathBuf, Error> {
        let path = self
            .directory()
            .join(format!("{}.kubeconfig", unique("user")));
        write_kubeconfig(
            &path,
            self.port,
            &self.authority,
            &self.identity(user, groups)?,
        )?;
        Ok(path)
    }

    /// `https://127.0.0.1:<port>` of the API server.
    pub fn url(&self) -> String {
        kubeconfig::url(self.port)
    }

    /// The port of the API server.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The client port of etcd, which speaks plain HTTP.
    pub fn etcd_port(&self) -> u16 {
        self.etcd_port
    }

    /// The certificate authority that signed everything, PEM.
    pub fn certificate_authority(&self) -> String {
        self.authority.pem()
    }

    /// Where data, certificates and logs are, for as long as this lives.
    pub fn directory(&self) -> &Path {
        self.processes.directory()
    }

    /// What a server wrote to its standard output and error since its last start.
    pub fn log(&self, server: Server) -> PathBuf {
        self.processes.log(server)
    }

    /// Who did what.
    pub fn audit(&self) -> &AuditLog {
        &self.audit
    }

    /// Makes a request and waits for its audit entry: those of all requests answered before are
    /// then there as well, the server being done with them.
    pub async fn audit_fence(&self) -> Result<(), Error> {
        let mark = self.audit.mark().map_err(Error::Audit)?;
        let uri = format!("/version?fence={}", unique("fence"));
        get(&self.client()?, &uri)
            .await
            .map_err(|source| client_error("ask for the version", source))?;
        self.audit
            .wait_for(mark, |entry| entry.uri == uri)
            .await
            .map(drop)
            .map_err(Error::Audit)
    }

    /// Makes a namespace with a name that nobody else uses.
    pub async fn namespace(&self, prefix: &str) -> Result<String, Error> {
        let name = unique(prefix);
        let namespace = Namespace {
            metadata: kube::api::ObjectMeta {
                name: Some(name.clone()),
                ..Default::default()
            },
            ..Default::default()
        };
        Api::<Namespace>::all(self.client()?)
            .create(&PostParams::default(), &namespace)
            .await
            .map_err(|source| client_error("create a namespace", source))?;
        Ok(name)
    }

    /// Runs kube-controller-manager with exactly these controllers, instead of one that runs
    /// already. Returns when it talks to the API server; its controllers may need a little longer.
    ///
    /// The garbage collector learns of a new kind within 30 s of the kind's creation.
    pub async fn start_controllers(&self, names: &[&str]) -> Result<(), Error> {
        let server = Server::ControllerManager;
        let program = self
            .locator
            .find(server.tool())
            .await
            .map_err(Error::Binary)?;
        self.processes.end(server)?;
        // Its own roles are enough only with a token per controller; an administrator needs none.
        let identity = self.identity(servers::CONTROLLER_MANAGER_USER, &["system:masters"])?;
        let path = self
            .directory()
            .join(servers::CONTROLLER_MANAGER_KUBECONFIG);
        write_kubeconfig(&path, self.port, &self.authority, &identity)?;
        let arguments = servers::controller_manager(self.directory(), names);
        self.raise_controller_manager(Launch { program, arguments })
            .await
    }

    /// The process id of a running server.
    pub fn pid(&self, server: Server) -> Option<u32> {
        self.processes.pid(server)
    }

    /// Sends a signal to a running server.
    pub fn signal(&self, server: Server, signal: Signal) -> Result<(), Error> {
        self.processes.signal(server, signal)
    }

    /// Freezes a server (`SIGSTOP`): connections stay open, nothing answers.
    pub fn pause(&self, server: Server) -> Result<(), Error> {
        self.signal(server, Signal::Pause)
    }

    /// Lets a paused server run again.
    pub fn resume(&self, server: Server) -> Result<(), Error> {
        self.signal(server, Signal::Resume)
    }

    /// Kills a server (`SIGKILL`) and returns when it is gone. [`Self::restart`] brings it back.
    pub fn kill(&self, server: Server) -> Result<(), Error> {
        self.processes.end(server)
    }

    /// Kills a server if it runs, starts it as before, on the same port and data, and returns
    /// when it is ready.
    pub async fn restart(&self, server: Server) -> Result<(), Error> {
        let launch = self.processes.launch(server)?;
        self.kill(server)?;
        let again = |_| launch.clone();
        let raised = match server {
            Server::Etcd => {
                let probe = |port| probe_etcd(port, self.etcd_name.clone());
                self.processes
                    .raise(server, Port::Only(self.etcd_port), again, probe)
                    .await
            }
            Server::Apiserver => {
                let probe = |_| probe_apiserver(Ok(self.config()));
                self.processes
                    .raise(server, Port::Only(self.port), again, probe)
                    .await
            }
            Server::ControllerManager => return self.raise_controller_manager(launch).await,
        };
        raised.map(drop)
    }

    /// [`Self::restart`] of the API server.
    pub async fn restart_apiserver(&self) -> Result<(), Error> {
        self.restart(Server::Apiserver).await
    }

    async fn raise_controller_manager(&self, launch: Launch) -> Result<(), Error> {
        let mark = self.audit.mark().map_err(Error::Audit)?;
        let probe = || async move {
            let entries = self.audit.since(mark).map_err(|error| error.to_string())?;
            let is_there = entries
                .iter()
                .any(|entry| entry.user == servers::CONTROLLER_MANAGER_USER && entry.code < 300);
            is_there
                .then_some(())
                .ok_or_else(|| "it has made no request yet".to_owned())
        };
        self.processes
            .raise_portless(Server::ControllerManager, launch, probe)
            .await
    }

    fn identity(&self, user: &str, groups: &[&str]) -> Result<Identity, Error> {
        self.authority
            .client(user, groups)
            .map_err(Error::Certificate)
    }
}

async fn raise_etcd(
    processes: &Processes,
    program: &Path,
    name: &str,
    port: Port,
) -> Result<u16, Error> {
    let launch = |port| {
        let mut arguments = servers::etcd(processes.directory(), port);
        arguments.push(format!("--name={name}"));
        Launch {
            program: program.to_owned(),
            arguments,
        }
    };
    processes
        .raise(Server::Etcd, port, launch, |port| {
            probe_etcd(port, name.to_owned())
        })
        .await
}

/// Content when an etcd with this name has a leader: on a port that somebody else was faster to
/// take, another control plane's etcd may answer.
async fn probe_etcd(port: u16, name: String) -> Result<(), String> {
    let client = reqwest::Client::builder()
        .no_proxy()
        .timeout(PROBE_WITHIN)
        .build();
    let request = client
        .map_err(|error| error.to_string())?
        .post(format!("http://127.0.0.1:{port}/v3/cluster/member/list"))
        .json(&json!({}));
    let answer = request.send().await.map_err(|error| error.to_string())?;
    let text = answer.text().await.map_err(|error| error.to_string())?;
    if text.contains(&name) {
        Ok(())
    } else {
        Err(text)
    }
}

/// Content when the API server says so and has made the namespaces that everybody relies on.
async fn probe_apiserver(config: Result<kube::Config, kube::Error>) -> Result<(), String> {
    let probe = async {
        let mut config = config?;
        config.default_retry = false;
        let client = kube::Client::try_from(config)?;
        get(&client, "/readyz").await?;
        let namespaces = Api::<Namespace>::all(client);
        namespaces.get("default").await?;
        namespaces.get("kube-system").await.map(drop)
    };
    match tokio::time::timeout(PROBE_WITHIN, probe).await {
        Ok(answer) => answer.map_err(|error: kube::Error| error.to_string()),
        Err(late) => Err(late.to_string()),
    }
}

async fn get(client: &kube::Client, uri: &str) -> Result<String, kube::Error> {
    let request = Request::get(uri)
        .body(Vec::new())
        .map_err(kube::Error::HttpError)?;
    client.request_text(request).await
}

fn write_files(directory: &Path, authority: &Authority) -> Result<(), Error> {
    let serving = authority.serving().map_err(Error::Certificate)?;
    let (tokens_private, tokens_public) = signing_key().map_err(Error::Certificate)?;
    let files = [
        ("ca.crt", authority.pem()),
        ("serving.crt", serving.certificate),
        ("serving.key", serving.key),
        ("tokens.key", tokens_private),
        ("tokens.pub", tokens_public),
        ("audit-policy.yaml", servers::AUDIT_POLICY.to_owned()),
    ];
    for (name, content) in files {
        let path = directory.join(name);
        kubeconfig::write_private(&path, content.as_bytes())
            .map_err(|source| directory_error(&path, source))?;
    }
    Ok(())
}

fn write_kubeconfig(
    path: &Path,
    port: u16,
    authority: &Authority,
    identity: &Identity,
) -> Result<(), Error> {
    kubeconfig::write(path, port, authority, identity)
        .map_err(|source| directory_error(path, source))
}

fn to_client(config: kube::Config) -> Result<kube::Client, Error> {
    install_crypto_provider();
    kube::Client::try_from(config).map_err(|source| client_error("make a client", source))
}

/// Somebody has to choose, once per process; an error means that somebody has.
fn install_crypto_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn directory_error(path: &Path, source: io::Error) -> Error {
    Error::Directory {
        path: path.to_owned(),
        source,
    }
}

fn client_error(step: &'static str, source: kube::Error) -> Error {
    Error::Client {
        step,
        source: Box::new(source),
    }
}
