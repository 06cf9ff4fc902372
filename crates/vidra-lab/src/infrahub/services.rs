//! The processes of one Infrahub: how each is started, known to be ready, and asked to end.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use super::{
    environment::{self, BROKER},
    error::Error,
    layout::{Layout, as_postgres},
    packages::{self, Programs},
    ports::Ports,
    tools::Tools,
};

/// Printed by the launcher of the graph database.
const GRAPH_READY: &str = "graph is served on";
/// Packages of the Java runtime that Neo4j reaches into.
const OPENED: [&str; 4] = ["java.nio", "java.io", "sun.nio.ch", "java.util.concurrent"];

/// All that is decided before the first process starts.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub layout: Layout,
    pub ports: Ports,
    pub programs: Programs,
    pub tools: Tools,
    /// Settings of the caller, which win over ours.
    pub extra: Vec<(String, String)>,
}

/// How we know that a process does its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ready {
    /// It accepts connections.
    Port(u16),
    /// It answers with a success.
    Http(String),
    /// It says so in its log.
    Log(&'static str),
}

/// One process.
#[derive(Debug)]
pub(super) struct Service {
    pub name: &'static str,
    pub command: Command,
    /// The signal that asks for an orderly end.
    pub stop: &'static str,
    pub ready: Ready,
    /// How long it may take; generous, for slow and busy machines.
    pub patience: Duration,
}

impl Service {
    fn new(name: &'static str, command: Command, ready: Ready, minutes: u64) -> Self {
        Self {
            name,
            command,
            stop: "TERM",
            ready,
            patience: Duration::from_mins(minutes),
        }
    }
}

impl Plan {
    pub(super) fn graph(&self) -> Service {
        let mut command = self.command(&self.programs.java);
        command
            // UsePerfData would keep a file outside of our data directory.
            .args(["-Xms256m", "-Xmx1g", "-XX:+UseSerialGC", "-XX:-UsePerfData"])
            .arg(format!("-Djava.io.tmpdir={}", self.below("tmp")))
            .args(OPENED.map(|package| format!("--add-opens=java.base/{package}=ALL-UNNAMED")))
            .args(["-cp", &self.tools.class_path, "Graph"])
            .args([self.below("neo4j"), self.ports.bolt.to_string()]);
        Service::new("neo4j", command, Ready::Log(GRAPH_READY), 5)
    }

    pub(super) fn redis(&self) -> Service {
        let mut command = self.command(&self.programs.redis);
        command
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--port", &self.ports.redis.to_string()])
            .args(["--dir", &self.below("redis")]);
        Service::new("redis", command, Ready::Port(self.ports.redis), 2)
    }

    /// Makes Postgres's data directory, which must belong to the user it runs as.
    pub(super) fn initdb(&self) -> Vec<Command> {
        let mut commands = Vec::new();
        if packages::is_root() {
            let mut own = Command::new("install");
            own.args(["-d", "-m", "700", "-o", "postgres", "-g", "postgres"])
                .arg(&self.layout.postgres);
            commands.push(own);
        }
        let mut initdb = as_postgres(&self.programs.postgres.join("initdb"));
        initdb
            .current_dir("/")
            .arg("-D")
            .arg(&self.layout.postgres)
            .args(["-U", environment::DATABASE_USER, "-A", "trust"])
            .args(["-E", "UTF8", "--locale=C", "--no-sync"]);
        commands.push(initdb);
        commands
    }

    pub(super) fn postgres(&self) -> Service {
        let mut command = as_postgres(&self.programs.postgres.join("postgres"));
        command
            .current_dir("/")
            .arg("-D")
            .arg(&self.layout.postgres)
            .args(["-p", &self.ports.postgres.to_string()])
            .args(["-c", "listen_addresses=127.0.0.1"])
            .args(["-c", "unix_socket_directories=", "-c", "fsync=off"]);
        let ready = Ready::Port(self.ports.postgres);
        Service {
            // On TERM it would wait for its clients to leave.
            stop: "INT",
            ..Service::new("postgres", command, ready, 2)
        }
    }

    /// Erlang's name service, on a port of its own instead of the machine's well-known one.
    pub(super) fn epmd(&self) -> Service {
        let mut command = self.command(&self.programs.epmd);
        self.erlang(&mut command);
        Service::new("epmd", command, Ready::Port(self.ports.epmd), 2)
    }

    pub(super) fn rabbitmq(&self) -> Service {
        let mut command = self.command(&self.programs.rabbitmq);
        self.erlang(&mut command);
        let below = |name: &str| self.below(&format!("rabbitmq/{name}"));
        command
            .env("RABBITMQ_NODENAME", "infrahub@localhost")
            .env("RABBITMQ_CONF_ENV_FILE", "/dev/null")
            .env("RABBITMQ_CONFIG_FILE", below("rabbitmq"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", below("enabled_plugins"))
            .env("RABBITMQ_MNESIA_BASE", below("mnesia"))
            .env("RABBITMQ_LOG_BASE", below("log"))
            .env("RABBITMQ_DIST_PORT", self.ports.erlang.to_string())
            // Idle schedulers sleep instead of spinning: there are few cores.
            .env(
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                "+sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}",
            );
        Service::new("rabbitmq", command, Ready::Port(self.ports.amqp), 4)
    }

    /// The files that `RabbitMQ` reads at its start.
    pub(super) fn configure_rabbitmq(&self) -> Result<(), Error> {
        let directory = self.layout.data.join("rabbitmq");
        fs::create_dir_all(&directory).map_err(Error::file("create", &directory))?;
        let settings = format!(
            "listeners.tcp.1 = 127.0.0.1:{}\ndefault_user = {BROKER}\ndefault_pass = {BROKER}\n\
             log.file = false\nlog.console = true\nlog.console.level = warning\n",
            self.ports.amqp
        );
        for (name, content) in [
            ("rabbitmq.conf", settings.as_str()),
            ("enabled_plugins", "[].\n"),
        ] {
            let path = directory.join(name);
            fs::write(&path, content).map_err(Error::file("write", path))?;
        }
        Ok(())
    }

    pub(super) fn prefect(&self) -> Service {
        let mut command = self.infrahub("uvicorn");
        command
            .args([
                "--factory",
                "infrahub.prefect_server.app:create_infrahub_prefect",
            ])
            .args([
                "--host",
                "127.0.0.1",
                "--port",
                &self.ports.prefect.to_string(),
            ]);
        let health = format!("http://127.0.0.1:{}/api/health", self.ports.prefect);
        Service::new("prefect", command, Ready::Http(health), 10)
    }

    pub(super) fn api(&self) -> Service {
        let mut command = self.infrahub("infrahub");
        command
            .args(["server", "start", "--listen", "127.0.0.1"])
            .args(["--port", &self.ports.api.to_string()]);
        let config = format!("{}/api/config", environment::url(&self.ports));
        Service::new("infrahub", command, Ready::Http(config), 20)
    }

    pub(super) fn worker(&self) -> Service {
        let mut command = self.infrahub("prefect");
        command
            .args(["worker", "start", "--type", "infrahubasync"])
            .args(["--pool", "infrahub-worker", "--with-healthcheck"]);
        let health = format!("http://127.0.0.1:{}/health", self.ports.worker_health);
        Service::new("worker", command, Ready::Http(health), 10)
    }

    fn erlang(&self, command: &mut Command) {
        command
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("ERL_EPMD_PORT", self.ports.epmd.to_string());
    }

    fn infrahub(&self, program: &str) -> Command {
        let mut command = self.command(&self.tools.python_bin.join(program));
        command
            .envs(environment::variables(&self.layout, &self.ports))
            .envs(self.extra.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts from an empty environment: settings of the person at the keyboard, such as
    /// `INFRAHUB_ADDRESS` or a proxy, would lead elsewhere.
    fn command(&self, program: &Path) -> Command {
        let python = self.tools.python_bin.display();
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", format!("{python}:{}", packages::search_path()))
            .env("HOME", self.below("home"))
            .env("TMPDIR", self.below("tmp"))
            .env("LANG", "C.UTF-8")
            .current_dir(&self.layout.data)
            .stdin(Stdio::null());
        command
    }

    fn below(&self, name: &str) -> String {
        self.layout.data.join(name).display().to_string()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::infrahub) fn plan() -> Plan {
        Plan {
            layout: Layout {
                data: "/data".into(),
                postgres: "/data/postgres".into(),
            },
            ports: Ports::numbered(28_000),
            programs: Programs {
                python: "/bin/python3.11".into(),
                java: "/bin/java".into(),
                javac: "/bin/javac".into(),
                maven: "/bin/mvn".into(),
                git: "/bin/git".into(),
                redis: "/bin/redis-server".into(),
                rabbitmq: "/lib/rabbitmq-server".into(),
                epmd: "/bin/epmd".into(),
                postgres: "/lib/postgresql".into(),
            },
            tools: Tools {
                python_bin: "/cache/python/bin".into(),
                class_path: "/cache/neo4j/classes:/cache/neo4j/lib/*".into(),
            },
            extra: Vec::new(),
        }
    }

    fn variable(service: &Service, name: &str) -> Option<String> {
        let mut variables = service.command.get_envs();
        let (_, value) = variables.find(|(key, _)| *key == name)?;
        Some(value?.to_string_lossy().into_owned())
    }

    fn arguments(service: &Service) -> String {
        let words = service.command.get_args();
        let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn the_servers_listen_on_loopback() {
        let plan = plan();
        for service in [plan.redis(), plan.postgres(), plan.prefect(), plan.api()] {
            assert!(
                arguments(&service).contains("127.0.0.1"),
                "{}",
                service.name
            );
        }
        let loopback = Some("127.0.0.1".to_owned());
        assert_eq!(variable(&plan.epmd(), "ERL_EPMD_ADDRESS"), loopback);
        let worker = plan.worker();
        assert_eq!(variable(&worker, "PREFECT_WORKER_WEBSERVER_HOST"), loopback);
    }

    #[test]
    fn the_api_is_awaited_at_the_port_it_was_told() {
        let api = plan().api();
        assert!(arguments(&api).ends_with("--port 28000"));
        let url = "http://127.0.0.1:28000/api/config".to_owned();
        assert_eq!(api.ready, Ready::Http(url));
    }

    #[test]
    fn postgres_is_asked_to_end_without_waiting_for_its_clients() {
        assert_eq!(plan().postgres().stop, "INT");
        assert_eq!(plan().redis().stop, "TERM");
    }

    #[test]
    fn settings_of_the_caller_win() {
        let mut plan = plan();
        let name = "INFRAHUB_TELEMETRY_OPTOUT";
        assert_eq!(variable(&plan.api(), name).as_deref(), Some("true"));
        plan.extra = vec![(name.to_owned(), "false".to_owned())];
        assert_eq!(variable(&plan.api(), name).as_deref(), Some("false"));
    }

    #[test]
    fn programs_of_the_virtual_environment_are_found_first() {
        let path = variable(&plan().worker(), "PATH").unwrap();
        assert!(path.starts_with("/cache/python/bin:"), "{path}");
    }
}
