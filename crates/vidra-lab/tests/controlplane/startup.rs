//! What goes wrong at the start, and what is said about it.

use std::net::TcpListener;

use vidra_lab::controlplane::{Builder, ControlPlane, Error, Server};

use crate::support::{Scratch, processes_mentioning, text};

/// A port that is taken for as long as the listener lives.
fn occupied() -> (TcpListener, u16) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

async fn fail_in(root: &Scratch, builder: Builder) -> Error {
    let Err(error) = builder.root(root.path()).start().await else {
        panic!("the control plane has started")
    };
    assert_eq!(processes_mentioning(root.path()), Vec::<String>::new());
    assert_eq!(root.planes(), Vec::<String>::new());
    error
}

#[tokio::test]
async fn an_occupied_port_of_the_api_server_is_named() {
    let (_listener, port) = occupied();
    let root = Scratch::new("port");
    let error = fail_in(&root, ControlPlane::builder().port(port)).await;
    let Error::PortOccupied {
        server: Server::Apiserver,
        port: named,
        ..
    } = &error
    else {
        panic!("{error:?}")
    };
    assert_eq!(*named, port);
    assert!(
        text(&error).contains(&format!("127.0.0.1:{port}")),
        "{error}"
    );
}

#[tokio::test]
async fn an_occupied_port_of_etcd_is_named() {
    let (_listener, port) = occupied();
    let root = Scratch::new("port");
    let error = fail_in(&root, ControlPlane::builder().etcd_port(port)).await;
    assert!(
        matches!(error, Error::PortOccupied { server: Server::Etcd, port: named, .. } if named == port),
        "{error:?}"
    );
}

#[tokio::test]
async fn occupied_ports_are_replaced_by_free_ones() {
    let (_listener, port) = occupied();
    let (_etcd_listener, etcd_port) = occupied();
    let builder = ControlPlane::builder()
        .preferred_port(port)
        .preferred_etcd_port(etcd_port);
    let plane = builder.start().await.unwrap();
    assert_ne!(plane.port(), port);
    assert_ne!(plane.etcd_port(), etcd_port);
    plane.client().unwrap().apiserver_version().await.unwrap();
}

#[tokio::test]
async fn the_etcd_of_another_control_plane_is_not_taken_for_our_own() {
    let other = ControlPlane::start().await.unwrap();
    let builder = ControlPlane::builder().preferred_etcd_port(other.etcd_port());
    let plane = builder.start().await.unwrap();
    assert_ne!(plane.etcd_port(), other.etcd_port());
}

#[tokio::test]
async fn a_server_that_dies_at_start_is_reported_with_its_log() {
    let root = Scratch::new("dies");
    let builder = ControlPlane::builder().apiserver_argument("--no-such-flag");
    let error = fail_in(&root, builder).await;
    let Error::ServerDied {
        server: Server::Apiserver,
        log,
        tail,
    } = &error
    else {
        panic!("{error:?}")
    };
    assert!(tail.contains("unknown flag: --no-such-flag"), "{tail}");
    assert!(
        text(&error).contains("unknown flag: --no-such-flag"),
        "{error}"
    );
    let kept = std::fs::read_to_string(log).unwrap();
    assert!(kept.contains("unknown flag: --no-such-flag"), "{kept}");
}
