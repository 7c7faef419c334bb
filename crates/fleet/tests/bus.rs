//! What certificates let their holders take from a bus: every grant, with rows of every table, over a real NATS server.

use crate::common::{authority, eventually, viewer};
use crate::grants::{GRANTS, batch, check, check_packets, node};
use magscope_core::Batch;
use magscope_core::source::{Progress, Source};
use magscope_fleet::pki::{Folder, Validity};
use magscope_fleet::{
    Buckets, BusReadOptions, Credentials, Grants, Host, HostDiscovery, Keep, Memory, Publisher, StartAt,
    StreamContent, Terms, Via,
};
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A NATS server that wants a certificate of the authority. Ended when it goes.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(dir: &Path, folder: &Folder) -> Option<Self> {
        folder.host(&["bus".to_owned(), "127.0.0.1".to_owned()], Validity::days(1)).expect("it is made");
        let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").port();
        let (tls, store, log) = (folder.path().display(), dir.join("store"), dir.join("bus.log"));
        let configuration = dir.join("bus.conf");
        let text = format!(
            "listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: \"{}\", max_file: 1GB }}\n\
             tls {{ cert_file: \"{tls}/host-bus.pem\", key_file: \"{tls}/host-bus.key\", ca_file: \"{tls}/ca.pem\", verify: true }}\n",
            store.display()
        );
        std::fs::write(&configuration, text).expect("own directory");
        let mut server = Command::new("nats-server");
        server.arg("-c").arg(&configuration).arg("-l").arg(&log);
        let Ok(child) = server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
            let _ = writeln!(std::io::stderr(), "grants of a bus: skipped, because there is no nats-server");
            return None;
        };
        let server = Server { child, url: format!("tls://127.0.0.1:{port}") };
        let ready = || std::fs::read_to_string(&log).is_ok_and(|log| log.contains("Server is ready"));
        assert!(eventually(ready), "{:?}", std::fs::read_to_string(&log));
        Some(server)
    }

    fn via(&self, credentials: Option<Credentials>) -> Via {
        Via { servers: vec![self.url.parse().expect("a server")], credentials, creds: None }
    }

    /// All that this identity gets of the host, and what it learns of the host itself.
    fn read(&self, folder: &Folder, identity: &str) -> (Vec<Batch>, String) {
        let options = BusReadOptions {
            via: self.via(viewer(folder, identity)),
            only: Vec::new(),
            buckets: Buckets::ALL,
            from: StartAt::Back(Duration::from_mins(5)),
            terms: Terms::default(),
        };
        let (mut hosts, _discovery) = HostDiscovery::enter(&[], Some(&options)).expect("a host is there");
        let mut host: Host = hosts.pop().expect("one");
        let (mut all, mut has_clock) = (Vec::new(), false);
        assert!(eventually(|| {
            let mut batch = Batch::default();
            let progress = host.next(&mut batch, Duration::from_millis(100)).expect("a source");
            // Clock readings are let through under every grant, in the round that has all the rest.
            has_clock |= !batch.clock.is_empty();
            all.push(batch);
            has_clock || progress == Progress::End
        }));
        (all, format!("{:?}", host.info()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Which tables have rows, by the names that agents serve them by.
fn tables(batches: &[Batch]) -> Vec<&'static str> {
    let mut tables = Vec::new();
    for batch in batches {
        let Batch { events, flows, tasks, tcp, hits, heads, losses, clock, changes, counts, synthesis, .. } =
            batch;
        let rows = [
            ("events", events.len()),
            ("flows", flows.len()),
            ("tasks", tasks.len()),
            ("tcp", tcp.len()),
            ("hits", hits.len()),
            ("heads", heads.len()),
            ("losses", losses.len()),
            ("clock", clock.len()),
            ("changes", changes.len()),
            ("counts", counts.len()),
            ("synthesis", synthesis.len()),
        ];
        tables.extend(rows.into_iter().filter(|(_, rows)| *rows > 0).map(|(name, _)| name));
    }
    tables.sort_unstable();
    tables.dedup();
    tables
}

#[test]
fn no_table_of_a_bus_has_a_row_that_is_not_granted() {
    let (dir, folder) = authority();
    let Some(server) = Server::start(dir.path(), &folder) else { return };
    let grants_of = |text: &str| -> Grants { format!("magnet-scope:viewer{text}").parse().expect("limits") };
    for (n, text) in GRANTS.iter().enumerate() {
        folder.viewer(&format!("v{n}"), &grants_of(text), Validity::days(1)).expect("it is made");
    }
    let (memory, mut writer) = Memory::new(node("web-1"), 64 << 20).expect("Arrow");
    let publishes = server.via(viewer(&folder, "host-web-1"));
    let keep = Keep { bytes: 1 << 26, time: None };
    let publisher = Publisher::start(&publishes, &memory, "web-1", keep).expect("the bus is there");
    writer.push(&batch()).expect("kept");
    for (n, text) in GRANTS.iter().enumerate() {
        let (what, grants) = (format!("a bus, grant `{text}`"), grants_of(text));
        let (batches, about) = server.read(&folder, &format!("viewer-v{n}"));
        check_packets(&what, &grants, &batches);
        check(&format!("{what}, about"), &grants, &vec![("about".to_owned(), about)]);
        let came = tables(&batches);
        let stored = StreamContent::all().map(|(name, _)| name);
        let all: Vec<&str> = stored.into_iter().filter(|name| tables(&[batch()]).contains(name)).collect();
        match *text {
            "" => {
                assert!(all.len() >= 11 && all.iter().all(|table| came.contains(table)), "{came:?} of {all:?}");
            }
            "?containers=nosuch" => assert_eq!(came, ["changes", "clock", "losses"], "{what}"),
            "?containers=4fa2" => {
                let own = ["events", "flows", "heads", "hits", "synthesis", "tasks", "tcp"];
                assert!(own.iter().all(|table| came.contains(table)), "{what}: {came:?}");
            }
            _ => {}
        }
    }
    drop(writer);
    publisher.end(Duration::from_secs(10)).expect("it was published");
}

#[test]
fn who_may_not_read_an_agent_reads_no_bus() {
    let (dir, folder) = authority();
    let Some(server) = Server::start(dir.path(), &folder) else { return };
    let (memory, mut writer) = Memory::new(node("web-1"), 64 << 20).expect("Arrow");
    let publishes = server.via(viewer(&folder, "host-web-1"));
    let keep = Keep { bytes: 1 << 26, time: None };
    let publisher = Publisher::start(&publishes, &memory, "web-1", keep).expect("the bus is there");
    writer.push(&batch()).expect("kept");
    let options = BusReadOptions {
        via: publishes,
        only: Vec::new(),
        buckets: Buckets::ALL,
        from: StartAt::Back(Duration::from_mins(5)),
        terms: Terms::default(),
    };
    // A host's certificate publishes, and reads nothing.
    assert!(HostDiscovery::enter(&[], Some(&options)).is_err());
    drop(writer);
    publisher.end(Duration::from_secs(10)).expect("it was published");
}
