//! Cut connections and a server that is away: no item and no line is lost, and nothing runs twice.
//!
//! `VOLLEY_OUTAGE_SECONDS` says for how long the server is away at least; the usual time fits a run of all tests.

use crate::chaos::{KINDS, make_queues};
use crate::site::{Site, until, until_within};
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const OUTAGE_DEFAULT: u64 = 5;
const LINES: usize = 150;
const CUTS: usize = 25;
/// Nothing may come through between two cuts that follow each other closely.
const LULL_MAX: Duration = Duration::from_secs(2);

/// Says its lines with a little time between them, and notes that it ran and that it ended.
const TALK: &str = r#"rank=${RANK:-${VC_TASK_INDEX:-0}}
echo ran >>/ledger/$WANDB_RUN_ID.$VOLLEY_ATTEMPT.$rank
if test "$rank" = 0 && test -n "$OTHERS"; then
  until test -e /ledger/$WANDB_RUN_ID.$VOLLEY_ATTEMPT.1; do sleep 0.05; done
fi
i=0; while test $i -lt LINES; do echo "rank $rank line $i"; i=$((i + 1)); sleep 0.02; done
until test "$rank" = 0 || test -z "$OTHERS" || test -e /ledger/go; do sleep 0.05; done
touch /ledger/ended-$WANDB_RUN_ID.$rank"#;

/// Passes connections on to the server, until they are cut.
struct Proxy {
    address: String,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    fn to(server: &str) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let open: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let (kept, server) = (open.clone(), server.strip_prefix("http://").unwrap().to_owned());
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(&server) else { continue };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    kept.lock().unwrap().push(from.try_clone().unwrap());
                    std::thread::spawn(move || pass(from, to));
                }
            }
        });
        Proxy { address, open }
    }

    /// Ends all connections, whatever is under way on them; gives how many there were.
    fn cut(&self) -> usize {
        let open = std::mem::take(&mut *self.open.lock().unwrap());
        open.iter().filter(|stream| stream.shutdown(Shutdown::Both).is_ok()).count()
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) -> io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        let length = from.read(&mut buffer)?;
        if length == 0 {
            return to.shutdown(Shutdown::Write);
        }
        to.write_all(&buffer[..length])?;
    }
}

fn expected(ranks: usize) -> Vec<String> {
    let lines = (0..ranks).flat_map(|rank| (0..LINES).map(move |line| format!("rank {rank} line {line}")));
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    lines
}

/// Every item ended well in its first attempt, each rank ran once, and all that it said is there once.
fn check(site: &Site, ids: &[String]) {
    for (id, ranks) in ids.iter().zip([1, 2, 2].into_iter().cycle()) {
        let item = site.until_end(id);
        assert_eq!((item.end.as_deref(), item.attempt), (Some("finished"), 1), "{item:#?}");
        until("all lines are there", || (site.lines(&item).len() >= ranks * LINES).then_some(()));
        assert_eq!(site.lines(&item), expected(ranks));
        let run = item.run.unwrap().name;
        for rank in 0..ranks {
            assert_eq!(fs::read_to_string(site.ledger.join(format!("{run}.1.{rank}"))).unwrap(), "ran\n");
        }
    }
}

fn ended(site: &Site) -> usize {
    let names = fs::read_dir(&site.ledger).unwrap().flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_string_lossy().starts_with("ended-")).count()
}

// A-18, A-25
#[test]
fn connections_that_are_cut_again_and_again_lose_no_line_and_no_item() {
    let mut site = Site::start();
    make_queues(&site);
    fs::write(site.ledger.join("go"), "").unwrap();
    let proxy = Proxy::to(site.client.url());
    site.add_agent(&KINDS, &proxy.address);
    let script = TALK.replace("LINES", &LINES.to_string());
    let ids: Vec<String> = (0..6).map(|n| site.submit(KINDS[n % 3], &format!("cut-{n}"), &script)).collect();
    let told = || ids.iter().map(|id| site.lines(&site.item(id)).len()).sum::<usize>();
    let mut last = 0;
    for _ in 0..CUTS {
        // A little further each time, or not at all while the agent comes back.
        let begun = Instant::now();
        last = until("there is something to cut", || {
            let now = told();
            let is_due = now > last || begun.elapsed() > LULL_MAX;
            (is_due && proxy.cut() > 0).then_some(now)
        });
    }
    check(&site, &ids);
}

// A-18, A-25, L-3, L-33
#[test]
fn work_goes_on_while_the_server_is_away_and_all_is_told_when_it_is_back() {
    let seconds = std::env::var("VOLLEY_OUTAGE_SECONDS").ok().and_then(|text| text.parse().ok());
    let outage = Duration::from_secs(seconds.unwrap_or(OUTAGE_DEFAULT));
    let mut site = Site::start();
    make_queues(&site);
    let url = site.client.url().to_owned();
    site.add_agent(&KINDS, &url);
    site.add_agent(&KINDS, &url);
    let script = TALK.replace("LINES", &LINES.to_string());
    let mut ids: Vec<String> = (0..6).map(|n| site.submit(KINDS[n % 3], &format!("away-{n}"), &script)).collect();
    for id in &ids {
        site.until_item(id, "it talks", |item| site.lines(item).len() > 2);
    }
    site.server.kill();
    let away = Instant::now();
    // Those with one rank end while nobody can be told; of the others the second ranks outlast the server.
    until_within(outage + Duration::from_secs(120), "jobs have ended and the time is over", || {
        (ended(&site) >= 6 && away.elapsed() >= outage).then_some(())
    });
    site.server.start();
    ids.extend((6..9).map(|n| site.submit(KINDS[n % 3], &format!("away-{n}"), &script)));
    fs::write(site.ledger.join("go"), "").unwrap();
    check(&site, &ids);
}
