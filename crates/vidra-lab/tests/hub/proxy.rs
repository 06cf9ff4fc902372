//! A network between the hub and the API server that can fail.

use std::net::Ipv4Addr;

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
};

/// What the network does at present.
#[derive(Debug, Clone, Copy)]
struct Weather {
    /// Connections that were made in an earlier epoch are dead: open, and nothing passes.
    epoch: u64,
    /// Whether connections are possible at all.
    is_up: bool,
}

/// Passes connections on, until told otherwise.
pub(crate) struct Proxy {
    port: u16,
    weather: watch::Sender<Weather>,
    task: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn to(target: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (weather, receiver) = watch::channel(Weather {
            epoch: 0,
            is_up: true,
        });
        Self {
            port,
            weather,
            task: tokio::spawn(accept(listener, target, receiver)),
        }
    }

    /// The same access, through this network.
    pub(crate) fn client(&self, mut config: kube::Config) -> kube::Client {
        config.cluster_url = format!("https://127.0.0.1:{}", self.port).parse().unwrap();
        config.default_retry = false;
        kube::Client::try_from(config).unwrap()
    }

    /// All present connections stay open, but nothing passes any longer; new ones work.
    pub(crate) fn forget_connections(&self) {
        self.weather.send_modify(|weather| weather.epoch += 1);
    }

    /// Ends all connections and refuses new ones.
    pub(crate) fn cut(&self) {
        self.weather.send_modify(|weather| weather.is_up = false);
    }

    pub(crate) fn mend(&self) {
        self.weather.send_modify(|weather| weather.is_up = true);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, target: u16, weather: watch::Receiver<Weather>) {
    let mut connections = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.unwrap();
        if weather.borrow().is_up {
            connections.spawn(pass(client, target, weather.clone()));
        }
    }
}

async fn pass(mut client: TcpStream, target: u16, mut weather: watch::Receiver<Weather>) {
    let epoch = weather.borrow().epoch;
    let Ok(mut server) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).await else {
        return;
    };
    tokio::select! {
        _ended = copy_bidirectional(&mut client, &mut server) => return,
        _cut = weather.wait_for(|now| !now.is_up || now.epoch != epoch) => {}
    }
    if weather.borrow().is_up {
        // Dead, not closed: both ends see an open connection.
        std::future::pending::<()>().await;
    }
}
