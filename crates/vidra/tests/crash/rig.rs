//! The shared control plane, the proxy before it, and the operator that is killed.

use std::{
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use kube::Client;
use tokio::sync::MutexGuard;
use vidra_lab::{
    controlplane::{ControlPlane, shared},
    proxy::{Callback, Effect, Fault, FaultProxy, Rule, Seen, Strikes},
};
use vidra_operator::settings::Settings;

use crate::{
    operator::Operator,
    plan::{Phase, Plan},
    support::{self, PATIENCE, install_definitions},
};

const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
/// After this long without a write, none is expected any more. Only for learning how many there
/// are: a run that is cut short by a crash waits for that crash.
const QUIET: Duration = Duration::from_millis(800);

/// What a test works with while it is its turn.
pub(crate) struct Rig {
    pub(crate) client: Client,
    pub(crate) proxy: &'static FaultProxy,
    plane: &'static ControlPlane,
    operator: Arc<Mutex<Option<Operator>>>,
    _turn: MutexGuard<'static, ()>,
}

impl Rig {
    /// Waits for this test's turn.
    pub(crate) async fn take() -> Self {
        static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
        static PROXY: OnceLock<FaultProxy> = OnceLock::new();
        let turn = TURN.lock().await;
        let plane = shared().await;
        let client = plane.client().unwrap();
        install_definitions(&client).await;
        let proxy = PROXY.get_or_init(|| FaultProxy::start(plane).unwrap());
        proxy.clear();
        Self {
            client,
            proxy,
            plane,
            operator: Arc::default(),
            _turn: turn,
        }
    }

    /// Starts the operator unless one is running.
    pub(crate) fn start(&self, arguments: &[&str]) {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let mut operator = self.operator.lock().unwrap();
        if operator.is_none() {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let log = self
                .plane
                .directory()
                .join(format!("operator-{number}.log"));
            *operator = Some(Operator::start(self.proxy.kubeconfig(), &log, arguments));
        }
    }

    /// Prepares the crash of a plan at a write that mentions the tag.
    pub(crate) fn arm(&self, plan: Plan, tag: &str) -> Strikes {
        let kill = self.killer();
        let fault = match plan.phase {
            Phase::Before => Fault::Request(Effect::Call(kill)),
            Phase::During => Fault::Reply(Effect::Call(kill)),
            Phase::After => Fault::Afterwards(kill),
        };
        self.strike(plan.write, tag, fault)
    }

    /// What kills the operator.
    pub(crate) fn killer(&self) -> Callback {
        let slot = self.operator.clone();
        Arc::new(move || drop(slot.lock().unwrap().take()))
    }

    /// Lets a fault strike the n-th write that mentions the tag.
    pub(crate) fn strike(&self, write: usize, tag: &str, fault: Fault) -> Strikes {
        let tag = tag.to_owned();
        let is_ours = move |seen: &Seen| is_write(seen, &tag);
        self.proxy.add(Rule::every(is_ours, fault).nth(write))
    }

    /// Runs an operator in this process instead, with settings that the command line has not.
    pub(crate) fn start_within(&self, settings: Settings) -> Within {
        Within::start(self.proxy.config(), settings)
    }

    /// Waits until the operator is dead.
    pub(crate) async fn until_dead(&self, strikes: &Strikes) {
        let is_dead = || self.operator.lock().unwrap().is_none();
        let what = || format!("the crash; {} writes came", strikes.matched());
        until(what, is_dead).await;
        assert_eq!(strikes.struck(), 1);
    }

    /// The writes of the operator that mention a tag, in their order.
    pub(crate) fn writes(&self, tag: &str) -> Vec<String> {
        let journal = self.proxy.journal();
        let writes = journal.iter().filter(|seen| is_write(seen, tag));
        writes
            .map(|seen| format!("{} {}", seen.method, seen.path))
            .collect()
    }

    /// Waits until there were this many writes.
    pub(crate) async fn until_written(&self, tag: &str, count: usize) {
        let what = || format!("{count} writes; seen {:#?}", self.writes(tag));
        until(what, || self.writes(tag).len() >= count).await;
    }

    /// Waits until no more writes come, and answers how many there were.
    pub(crate) async fn until_quiet(&self, tag: &str) -> usize {
        let mut before = usize::MAX;
        loop {
            let now = self.writes(tag).len();
            if now == before {
                return now;
            }
            before = now;
            tokio::time::sleep(QUIET).await;
        }
    }
}

/// An operator in this process; it ends when this is dropped.
pub(crate) struct Within(Option<support::Operator>);

impl Within {
    pub(crate) fn start(config: kube::Config, settings: Settings) -> Self {
        Self(Some(support::Operator::start(config, settings)))
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        if let Some(operator) = self.0.take() {
            operator.stop();
        }
    }
}

fn is_write(seen: &Seen, tag: &str) -> bool {
    seen.is_mutation() && seen.user_agent.starts_with("vidra/") && seen.mentions(tag)
}

/// Waits until something is so.
pub(crate) async fn until(what: impl Fn() -> String, is_so: impl Fn() -> bool) {
    let begin = std::time::Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "gave up waiting for {}", what());
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}
