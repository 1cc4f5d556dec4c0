//! One hundred kills: fifty on SQLite, thirty on PostgreSQL, twenty of one of two replicas on PostgreSQL.

use crate::checker::{Deed, Operation, check};
use crate::clients::{Client, World};
use crate::postgres::Postgres;
use crate::process::{Server, key, new_home};
use crate::support::PATIENCE;
use rand::RngExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;

const CLIENTS: usize = 64;
/// A server is killed after some of this many answers: early enough for many kills, late enough for all kinds of work.
const ANSWERS: std::ops::Range<usize> = 10..160;
const LOOK: Duration = Duration::from_millis(1);

struct Servers {
    homes: Vec<PathBuf>,
    database: Option<String>,
    running: Vec<Server>,
}

impl Servers {
    fn start(folder: &std::path::Path, count: usize, database: Option<String>) -> Servers {
        let homes: Vec<PathBuf> = (0..count).map(|number| new_home(folder, &format!("home-{number}"))).collect();
        let running = homes.iter().map(|home| Server::start(home, database.as_deref())).collect();
        Servers { homes, database, running }
    }

    fn addresses(&self) -> Vec<String> {
        self.running.iter().map(|server| server.address.clone()).collect()
    }

    fn kill_and_start(&mut self, victim: usize) {
        self.running[victim].kill();
        self.running[victim] = Server::start(&self.homes[victim], self.database.as_deref());
    }
}

async fn wait_for_answers(world: &World, wanted: usize) {
    let end = Instant::now() + PATIENCE;
    while world.answered.load(Ordering::Relaxed) < wanted {
        assert!(Instant::now() < end, "the server does not answer");
        tokio::time::sleep(LOOK).await;
    }
}

fn survive(kills: usize, replicas: usize, database: Option<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut servers = Servers::start(folder.path(), replicas, database);
    let world = Arc::new(World {
        addresses: watch::Sender::new(servers.addresses()),
        key: key(&servers.homes[0]),
        begun: Instant::now(),
        answered: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
    });
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut own = Client::new(world.clone(), CLIENTS);
        own.make_queue().await;
        let clients: Vec<_> =
            (0..CLIENTS).map(|number| tokio::spawn(Client::new(world.clone(), number).run())).collect();
        for _ in 0..kills {
            let (more, victim) = (rand::rng().random_range(ANSWERS), rand::rng().random_range(0..replicas));
            wait_for_answers(&world, world.answered.load(Ordering::Relaxed) + more).await;
            tokio::task::block_in_place(|| servers.kill_and_start(victim));
            world.addresses.send_replace(servers.addresses());
        }
        // Whoever is quick has many answers before others have one: all kinds of work get their turns at last.
        wait_for_answers(&world, world.answered.load(Ordering::Relaxed) + 16 * CLIENTS).await;
        world.is_over.store(true, Ordering::Relaxed);
        let mut operations: Vec<Operation> = Vec::new();
        for client in clients {
            operations.extend(client.await.expect("a client ends"));
        }
        let outcome = own.outcome(&operations).await;
        let wrong = check(&operations, &outcome);
        assert!(wrong.is_empty(), "{} faults, first: {:#?}", wrong.len(), &wrong[..wrong.len().min(5)]);
        assert_all_kinds(&operations);
    });
}

/// A test in which nothing happened would pass, too.
fn assert_all_kinds(operations: &[Operation]) {
    let has = |wanted: fn(&Deed) -> bool| operations.iter().any(|operation| wanted(&operation.deed));
    assert!(has(|deed| matches!(deed, Deed::Submit { item: Some(_), .. })));
    assert!(has(|deed| matches!(deed, Deed::Acknowledge { granted: Some(true), .. })));
    assert!(has(|deed| matches!(deed, Deed::Log { is_kept: true, .. })));
    assert!(has(|deed| matches!(deed, Deed::Stop { is_done: true, .. })));
    let is_lost = |deed: &Deed| matches!(deed, Deed::Submit { item: None, .. } | Deed::Log { is_kept: false, .. });
    assert!(operations.iter().any(|operation| is_lost(&operation.deed)), "no kill met a request under way");
}

#[test]
fn nothing_is_lost_or_done_twice_on_sqlite() {
    survive(50, 1, None);
}

#[test]
fn nothing_is_lost_or_done_twice_on_postgres() {
    let postgres = Postgres::start("fsync=off");
    survive(30, 1, Some(postgres.url()));
}

#[test]
fn two_replicas_on_postgres_behave_as_one() {
    let postgres = Postgres::start("fsync=off");
    survive(20, 2, Some(postgres.url()));
}
