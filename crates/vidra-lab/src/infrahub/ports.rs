//! Which port belongs to which process: ten in a row.

use std::{net::TcpListener, ops::Range};

use super::error::Error;

/// How many ports one Infrahub takes.
const NEEDED: u16 = 10;
/// Where free blocks are looked for: below the ports that Linux gives to outgoing connections.
const SEARCHED: Range<u16> = 20_000..32_000;

/// The ports of one Infrahub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ports {
    pub api: u16,
    pub prefect: u16,
    pub bolt: u16,
    pub redis: u16,
    pub amqp: u16,
    pub erlang: u16,
    pub epmd: u16,
    pub postgres: u16,
    pub worker_health: u16,
    /// The only one that listens on all interfaces; Infrahub has no setting for its address.
    pub worker_metrics: u16,
}

impl Ports {
    /// The block at `base`, or a free one when none is asked for.
    pub(super) fn claim(base: Option<u16>) -> Result<Self, Error> {
        match base {
            Some(base) => Self::exactly(base, is_free),
            // Processes that search at the same moment begin at different places.
            None => Self::search(std::process::id(), is_free),
        }
    }

    fn exactly(base: u16, is_free: impl Fn(u16) -> bool) -> Result<Self, Error> {
        let end = base.checked_add(NEEDED).ok_or(Error::NoPorts {
            needed: NEEDED,
            low: base,
            high: u16::MAX,
        })?;
        match (base..end).find(|port| !is_free(*port)) {
            Some(port) => Err(Error::PortBusy { port, base }),
            None => Ok(Self::numbered(base)),
        }
    }

    fn search(seed: u32, is_free: impl Fn(u16) -> bool) -> Result<Self, Error> {
        let blocks = u32::from((SEARCHED.end - SEARCHED.start) / NEEDED);
        (0..blocks)
            .filter_map(|step| u16::try_from((seed % blocks + step) % blocks).ok())
            .map(|block| SEARCHED.start + block * NEEDED)
            .find(|base| (*base..*base + NEEDED).all(&is_free))
            .map(Self::numbered)
            .ok_or(Error::NoPorts {
                needed: NEEDED,
                low: SEARCHED.start,
                high: SEARCHED.end,
            })
    }

    pub(super) fn numbered(base: u16) -> Self {
        let port = |offset| base.saturating_add(offset);
        Self {
            api: port(0),
            prefect: port(1),
            bolt: port(2),
            redis: port(3),
            amqp: port(4),
            erlang: port(5),
            epmd: port(6),
            postgres: port(7),
            worker_health: port(8),
            worker_metrics: port(9),
        }
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_port_gives_ten_ports_in_a_row() {
        let ports = Ports::exactly(28_000, |_| true).unwrap();
        assert_eq!(ports.api, 28_000);
        assert_eq!(ports.worker_metrics, 28_009);
    }

    #[test]
    fn a_busy_port_in_the_block_that_was_asked_for_is_named() {
        let error = Ports::exactly(28_000, |port| port != 28_007).unwrap_err();
        assert!(matches!(error, Error::PortBusy { port: 28_007, .. }));
    }

    #[test]
    fn a_block_at_the_end_of_the_port_range_is_refused() {
        let error = Ports::exactly(65_530, |_| true).unwrap_err();
        assert!(matches!(error, Error::NoPorts { low: 65_530, .. }));
    }

    #[test]
    fn the_search_goes_on_to_the_next_block_when_one_port_is_busy() {
        let ports = Ports::search(0, |port| port != 20_004).unwrap();
        assert_eq!(ports.api, 20_010);
    }

    #[test]
    fn the_search_wraps_around_at_the_end_of_the_range() {
        let last_block = 1_199;
        let ports = Ports::search(last_block, |port| port < 31_990).unwrap();
        assert_eq!(ports.api, 20_000);
    }

    #[test]
    fn different_seeds_begin_at_different_blocks() {
        let bases: Vec<u16> = [7, 8]
            .map(|seed| Ports::search(seed, |_| true).unwrap().api)
            .into();
        assert_eq!(bases, [20_070, 20_080]);
    }

    #[test]
    fn no_free_block_is_an_error_with_the_range() {
        let error = Ports::search(3, |_| false).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no 10 free ports in a row between 20000 and 32000: end what uses them"
        );
    }

    #[test]
    fn a_port_that_is_listened_on_is_not_free() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        assert!(!is_free(listener.local_addr().unwrap().port()));
    }
}
