//! The running servers: started, watched until ready, signalled, waited for.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{
    Error, Server, Signal,
    directory::Directory,
    guardian::{Guardian, has_ended},
    ports::Port,
};

/// Ready takes seconds; a machine that is busy building everything may need minutes.
const READY_WITHIN: Duration = Duration::from_mins(3);
const BETWEEN_PROBES: Duration = Duration::from_millis(25);
const LINES_IN_ERROR: usize = 15;

/// How to run a server, kept for a restart.
#[derive(Clone)]
pub(super) struct Launch {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
}

/// All servers of one control plane. Dropping ends them and removes the directory.
pub(super) struct Processes {
    guarded: Mutex<Guarded>,
    directory: Directory,
}

struct Guarded {
    guardian: Guardian,
    launches: HashMap<Server, Launch>,
}

enum Verdict {
    Ready,
    Died,
    Late(String),
}

impl Processes {
    pub(super) fn new(directory: Directory) -> Result<Self, Error> {
        let guardian = Guardian::spawn(directory.path()).map_err(Error::Guardian)?;
        let guarded = Guarded {
            guardian,
            launches: HashMap::new(),
        };
        Ok(Self {
            guarded: Mutex::new(guarded),
            directory,
        })
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn log(&self, server: Server) -> PathBuf {
        self.directory().join(format!("{}.log", server.key()))
    }

    pub(super) fn pid(&self, server: Server) -> Option<u32> {
        self.lock().guardian.pid(server)
    }

    /// Starts a server on a port, another one when somebody was faster, and waits until `probe`
    /// is content.
    pub(super) async fn raise<P>(
        &self,
        server: Server,
        wish: Port,
        launch: impl Fn(u16) -> Launch,
        probe: impl Fn(u16) -> P,
    ) -> Result<u16, Error>
    where
        P: Future<Output = Result<(), String>>,
    {
        let mut port = 0;
        for tried in 0..wish.tries() {
            port = wish
                .choose(tried)
                .map_err(|source| Error::ReservePort { server, source })?;
            self.start(server, launch(port))?;
            match self.until_ready(server, || probe(port)).await {
                Verdict::Died if self.port_was_taken(server) => self.reap(server)?,
                verdict => return self.judge(server, verdict).map(|()| port),
            }
        }
        let tries = wish.tries();
        Err(Error::PortOccupied {
            server,
            port,
            tries,
        })
    }

    /// Starts a server that needs no port and waits until `probe` is content.
    pub(super) async fn raise_portless<P>(
        &self,
        server: Server,
        launch: Launch,
        probe: impl Fn() -> P,
    ) -> Result<(), Error>
    where
        P: Future<Output = Result<(), String>>,
    {
        self.start(server, launch)?;
        let verdict = self.until_ready(server, probe).await;
        self.judge(server, verdict)
    }

    /// How the server was started last.
    pub(super) fn launch(&self, server: Server) -> Result<Launch, Error> {
        self.lock()
            .launches
            .get(&server)
            .cloned()
            .ok_or(Error::NotRunning { server })
    }

    pub(super) fn signal(&self, server: Server, signal: Signal) -> Result<(), Error> {
        let was_there = self
            .lock()
            .guardian
            .signal(server, signal)
            .map_err(Error::Guardian)?;
        was_there.then_some(()).ok_or(Error::NotRunning { server })
    }

    /// Kills a server and returns when it is gone. One that does not run is gone already.
    pub(super) fn end(&self, server: Server) -> Result<(), Error> {
        if self.pid(server).is_none() {
            return Ok(());
        }
        match self.signal(server, Signal::Kill) {
            // One that has died by itself still has to be waited for.
            Ok(()) | Err(Error::NotRunning { .. }) => self.reap(server),
            Err(error) => Err(error),
        }
    }

    fn start(&self, server: Server, launch: Launch) -> Result<(), Error> {
        // The log of an earlier try would be taken for this one's.
        let _ = fs::remove_file(self.log(server));
        let mut guarded = self.lock();
        let started = guarded
            .guardian
            .start(server, &launch.program, &launch.arguments);
        started.map_err(Error::Guardian)?;
        guarded.launches.insert(server, launch);
        Ok(())
    }

    fn reap(&self, server: Server) -> Result<(), Error> {
        self.lock().guardian.wait(server).map_err(Error::Guardian)
    }

    async fn until_ready<P>(&self, server: Server, probe: impl Fn() -> P) -> Verdict
    where
        P: Future<Output = Result<(), String>>,
    {
        let begin = Instant::now();
        loop {
            if self.pid(server).is_none_or(has_ended) {
                return Verdict::Died;
            }
            match probe().await {
                Ok(()) => return Verdict::Ready,
                Err(last) if begin.elapsed() > READY_WITHIN => return Verdict::Late(last),
                Err(_) => tokio::time::sleep(BETWEEN_PROBES).await,
            }
        }
    }

    fn judge(&self, server: Server, verdict: Verdict) -> Result<(), Error> {
        let (log, tail) = match verdict {
            Verdict::Ready => return Ok(()),
            _ => (
                self.directory.keep_log(&self.log(server)),
                self.tail(server),
            ),
        };
        self.end(server)?;
        Err(match verdict {
            Verdict::Late(last) => Error::NotReady {
                server,
                seconds: READY_WITHIN.as_secs(),
                last,
                log,
                tail,
            },
            _ => Error::ServerDied { server, log, tail },
        })
    }

    fn port_was_taken(&self, server: Server) -> bool {
        self.read_log(server)
            .is_ok_and(|log| log.contains("address already in use"))
    }

    fn tail(&self, server: Server) -> String {
        let log = self.read_log(server).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LINES_IN_ERROR)..].join("\n")
    }

    fn read_log(&self, server: Server) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(self.log(server))?).into_owned())
    }

    fn lock(&self) -> MutexGuard<'_, Guarded> {
        // Every operation leaves the maps consistent, so a panic elsewhere changes nothing.
        self.guarded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
