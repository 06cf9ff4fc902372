//! Starts processes, waits until they are ready, and notices when one dies.

use std::{
    fs::{self, File},
    path::Path,
    time::{Duration, Instant},
};

use tokio::net::TcpStream;

use super::{
    command,
    error::Error,
    guardian::Guardian,
    layout::Layout,
    progress::Progress,
    services::{Ready, Service},
};

/// How often a process is asked whether it is ready.
const PACE: Duration = Duration::from_millis(500);

/// The running processes of one Infrahub; dropping it ends them.
#[derive(Debug)]
pub(super) struct Fleet {
    guardian: Guardian,
    layout: Layout,
    http: reqwest::Client,
    progress: Progress,
}

impl Fleet {
    pub(super) fn new(
        guardian: Guardian,
        layout: Layout,
        http: reqwest::Client,
        progress: Progress,
    ) -> Self {
        Self {
            guardian,
            layout,
            http,
            progress,
        }
    }

    /// Starts a process; its output goes to its log.
    pub(super) fn launch(&mut self, service: &mut Service) -> Result<(), Error> {
        let log = self.layout.log(service.name);
        let output = File::create(&log).map_err(Error::file("write", &log))?;
        let errors = output.try_clone().map_err(Error::file("write", &log))?;
        let command = service.command.stdout(output).stderr(errors);
        self.guardian
            .spawn(service.name, command, service.stop)
            .map_err(|source| Error::Run {
                step: service.name,
                command: command.get_program().to_string_lossy().into_owned(),
                source,
            })
    }

    /// Waits until the process is ready; the death of any process ends the wait.
    pub(super) async fn await_ready(&mut self, service: &Service) -> Result<(), Error> {
        let began = Instant::now();
        let progress = self.progress.clone();
        let what = format!("waiting for {}", service.name);
        progress.patiently(&what, self.poll(service, began)).await?;
        let seconds = began.elapsed().as_secs_f32();
        self.progress
            .say(format_args!("{} is ready ({seconds:.1} s)", service.name));
        Ok(())
    }

    /// An error when a process has ended although nobody asked it to.
    pub(super) fn check_alive(&mut self) -> Result<(), Error> {
        match self.guardian.first_dead() {
            None => Ok(()),
            Some((process, status)) => Err(Error::Died {
                process,
                status,
                tail: command::tail(&self.layout.log(process)),
            }),
        }
    }

    async fn poll(&mut self, service: &Service, began: Instant) -> Result<(), Error> {
        while !is_ready(&service.ready, &self.layout.log(service.name), &self.http).await {
            self.check_alive()?;
            if began.elapsed() > service.patience {
                return Err(Error::NotReady {
                    process: service.name,
                    waited: service.patience,
                    tail: command::tail(&self.layout.log(service.name)),
                });
            }
            tokio::time::sleep(PACE).await;
        }
        // The port may have been answered by a process that is not ours.
        self.check_alive()
    }
}

async fn is_ready(ready: &Ready, log: &Path, http: &reqwest::Client) -> bool {
    match ready {
        Ready::Port(port) => TcpStream::connect(("127.0.0.1", *port)).await.is_ok(),
        Ready::Log(line) => fs::read_to_string(log).is_ok_and(|text| text.contains(line)),
        Ready::Http(url) => {
            let answer = http.get(url).timeout(Duration::from_secs(10)).send().await;
            answer.is_ok_and(|answer| answer.status().is_success())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn fleet(directory: &Path) -> Fleet {
        let layout = Layout {
            data: directory.to_owned(),
            postgres: directory.join("postgres"),
        };
        layout.fill().unwrap();
        Fleet::new(
            Guardian::start(&[directory]).unwrap(),
            layout,
            crate::infrahub::api::http_client().unwrap(),
            Progress::silent(),
        )
    }

    fn service(script: &str, ready: Ready) -> Service {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        Service {
            name: "redis",
            command,
            stop: "TERM",
            ready,
            patience: Duration::from_mins(5),
        }
    }

    #[tokio::test]
    async fn a_process_that_dies_is_told_with_the_end_of_its_log() {
        let directory = std::env::temp_dir().join(format!("fleet-dies-{}", std::process::id()));
        let mut fleet = fleet(&directory);
        let mut redis = service("echo address in use; exit 1", Ready::Log("never"));
        fleet.launch(&mut redis).unwrap();
        let text = fleet.await_ready(&redis).await.unwrap_err().to_string();
        assert!(text.starts_with("redis died (exit status: 1)"), "{text}");
        assert!(text.ends_with("address in use"), "{text}");
    }

    #[tokio::test]
    async fn a_process_is_ready_when_its_log_says_so() {
        let directory = std::env::temp_dir().join(format!("fleet-ready-{}", std::process::id()));
        let mut fleet = fleet(&directory);
        let mut redis = service(
            "echo at your service; exec sleep 300",
            Ready::Log("service"),
        );
        fleet.launch(&mut redis).unwrap();
        fleet.await_ready(&redis).await.unwrap();
    }

    #[tokio::test]
    async fn a_process_that_never_gets_ready_is_given_up() {
        let directory = std::env::temp_dir().join(format!("fleet-late-{}", std::process::id()));
        let mut fleet = fleet(&directory);
        let mut redis = service("echo loading; exec sleep 300", Ready::Log("never"));
        redis.patience = Duration::ZERO;
        fleet.launch(&mut redis).unwrap();
        let text = fleet.await_ready(&redis).await.unwrap_err().to_string();
        assert!(text.starts_with("redis is not ready after 0 s"), "{text}");
    }
}
