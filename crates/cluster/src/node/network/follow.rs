//! Following the store: services and their endpoints become names, addresses of the bridge and open doors.

use super::listen::Spot;
use super::{BridgeGround, Ground, Network};
use crate::apiserver::ApiServer;
use crate::apiserver::object::{Meta, Stored};
use crate::store::{Event, EventKind, Watch};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use volley_plan::node::service_rules::{self, Door, Name, Place, Services};

const SERVICES: &str = "services";
const SLICES: &str = "discovery.k8s.io/endpointslices";
/// How soon a door that was in somebody's way is tried again.
const RETRY: Duration = Duration::from_secs(5);

impl Network {
    /// Answers names and keeps services and doors up to date with the store until it is stopped.
    pub async fn run(self: Arc<Self>, server: Arc<ApiServer>, stop: CancellationToken) {
        let listeners = self.listeners.lock().take();
        let naming = async {
            if let Some(listeners) = listeners {
                self.resolver.clone().serve(listeners, stop.clone()).await;
            }
        };
        let following = stop.run_until_cancelled(self.follow(&server));
        tokio::join!(naming, following);
        self.doors.lock().clear();
    }

    async fn follow(&self, server: &ApiServer) {
        // What could not be opened is said once, however often it is tried.
        let mut complaints = BTreeSet::new();
        'start: loop {
            let (mut services, mut slices) = self.start_over(server);
            loop {
                let failures = self.refresh(server);
                for failure in failures.difference(&complaints) {
                    tracing::warn!("{failure}");
                }
                complaints = failures;
                let taken = tokio::select! {
                    events = services.next() => events.map(|events| self.take_in(&events, take_service)),
                    events = slices.next() => events.map(|events| self.take_in(&events, take_slice)),
                    () = tokio::time::sleep(RETRY), if !complaints.is_empty() => Ok(()),
                };
                if taken.is_err() {
                    continue 'start;
                }
            }
        }
    }

    /// Reads everything anew, as at the start.
    fn start_over(&self, server: &ApiServer) -> (Watch<Meta>, Watch<Meta>) {
        let bucket = |name: &str| server.store.bucket(name);
        let (services, services_watch) = server.store.list_and_watch(&bucket(SERVICES), "");
        let (slices, slices_watch) = server.store.list_and_watch(&bucket(SLICES), "");
        let mut fresh = Services::default();
        for stored in &services.entries {
            take_service(&mut fresh, stored, false);
        }
        for stored in &slices.entries {
            take_slice(&mut fresh, stored, false);
        }
        *self.services.write() = fresh;
        (services_watch, slices_watch)
    }

    fn take_in(&self, events: &[Arc<Event<Meta>>], take: fn(&mut Services, &Stored, bool)) {
        let mut services = self.services.write();
        for event in events {
            take(&mut services, &event.entry, event.kind == EventKind::Deleted);
        }
    }

    /// Brings addresses and doors in line with what is known; what could not be done is returned in words.
    pub(super) fn refresh(&self, server: &ApiServer) -> BTreeSet<String> {
        let api_server = server.address().parse::<SocketAddr>().ok();
        self.proxy.guard(api_server);
        let (addresses, rules) = {
            let services = self.services.read();
            (services.addresses(), service_rules::rules(&services, api_server))
        };
        let mut failures = BTreeSet::new();
        if let Ground::Bridge(ground) = &self.ground {
            failures.extend(ground.hold(&addresses));
        }
        let mut doors = self.doors.lock();
        doors.retain(|door, _| rules.contains_key(door));
        for (door, rule) in &rules {
            if let Some(open) = doors.get(door) {
                open.lead_to(rule);
                continue;
            }
            match self.proxy.open(&self.spots(door), door.protocol, rule) {
                Ok(open) => {
                    doors.insert(*door, open);
                }
                Err(error) => {
                    failures.insert(format!("the service port {} cannot be opened: {error}", shown(door)));
                }
            }
        }
        drop(doors);
        self.names_changed.send_replace(());
        failures
    }

    /// Where a door is: a service's on the bridge, and for pods on the machine's own network if nobody has it there.
    fn spots(&self, door: &Door) -> Vec<Spot> {
        let spot = |interface: Option<&str>, address: Ipv4Addr| Spot {
            interface: interface.map(str::to_owned),
            address: (address, door.port).into(),
        };
        match (door.place, &self.ground) {
            (Place::Machine, _) => vec![spot(None, Ipv4Addr::UNSPECIFIED)],
            (Place::Service(address), Ground::Bridge(ground)) => {
                vec![spot(Some(&ground.bridge.name), address), spot(Some("lo"), address)]
            }
            (Place::Service(address), Ground::Loopback) => vec![spot(None, self.zone.reached(address))],
        }
    }
}

impl BridgeGround {
    /// Gives the bridge exactly these addresses of services, besides its own.
    fn hold(&self, wanted: &BTreeSet<Ipv4Addr>) -> Vec<String> {
        let (netlink, mut held) = (self.netlink.lock(), self.held.lock());
        let mut failures = Vec::new();
        for address in wanted.difference(&held.clone()) {
            match netlink.add_own_address(self.index, *address) {
                Ok(()) => _ = held.insert(*address),
                Err(fault) => failures.push(fault.to_string()),
            }
        }
        for address in held.clone().difference(wanted) {
            match netlink.remove_own_address(self.index, *address) {
                Ok(()) => _ = held.remove(address),
                Err(fault) => failures.push(fault.to_string()),
            }
        }
        failures
    }
}

fn shown(door: &Door) -> String {
    let place = match door.place {
        Place::Service(address) => address.to_string(),
        Place::Machine => "of the node".to_owned(),
    };
    format!("{place} {}/{}", door.port, door.protocol.label())
}

fn take_service(services: &mut Services, stored: &Stored, is_gone: bool) {
    match serde_json::from_slice(&stored.value) {
        Ok(service) if !is_gone => services.observe_service(service),
        _ => services.forget_service(&name(stored)),
    }
}

fn take_slice(services: &mut Services, stored: &Stored, is_gone: bool) {
    match serde_json::from_slice(&stored.value) {
        Ok(slice) if !is_gone => services.observe_slice(slice),
        _ => services.forget_slice(&name(stored)),
    }
}

/// Keys are `<namespace>/<name>`.
fn name(stored: &Stored) -> Name {
    let (namespace, name) = stored.key.split_once('/').unwrap_or_default();
    Name::new(namespace, name)
}
