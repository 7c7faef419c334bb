//! Real servers in a namespace, each in a directory of its own, and their clients.

use crate::common::agents::Running;
use crate::common::exports::{python_with, tool};
use crate::common::hosts::{Hosts, SERVER, in_namespace};
use crate::common::{NOBODY, eventually, skipped};
use serde_json::Value;
use std::fs;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Ports of the servers.
pub const HTTP: u16 = 8_080;
pub const PROXY: u16 = 8_081;
pub const HTTPS: u16 = 8_443;
pub const REDIS: u16 = 6_379;
pub const DNS: u16 = 53;
pub const POSTGRES: u16 = 5_432;
pub const PAGE: u16 = 7_000;
pub const RPC: u16 = 7_001;

/// A server that ends with this value.
pub struct Server {
    running: Option<Running>,
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.signal(rustix::process::Signal::TERM);
            running.wait();
        }
    }
}

/// Starts a program on the server's host and waits for its port.
fn start(hosts: &Hosts, mut command: Command, port: u16) -> Server {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let running = in_namespace(&hosts.names[2], || Running::of(command));
    let at = SocketAddr::new(SERVER.parse().expect("an address"), port);
    let answers = || match port {
        DNS => asks_dns(at),
        _ => TcpStream::connect_timeout(&at, Duration::from_secs(1)).is_ok(),
    };
    assert!(in_namespace(&hosts.names[0], || eventually(answers)), "nothing answers at port {port}");
    Server { running: Some(running) }
}

fn asks_dns(at: SocketAddr) -> bool {
    let Ok(socket) = UdpSocket::bind("0.0.0.0:0") else { return false };
    let query = b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x03www\x04test\0\0\x01\0\x01";
    let mut answer = [0; 512];
    socket.set_read_timeout(Some(Duration::from_millis(200))).is_ok()
        && socket.send_to(query, at).is_ok()
        && socket.recv(&mut answer).is_ok()
}

/// nginx: files over HTTP, the same over TLS with HTTP/2, and a proxy before them.
pub fn nginx(test: &str, hosts: &Hosts, dir: &TempDir) -> Option<Server> {
    if !tool(test, "nginx") || !tool(test, "openssl") {
        return None;
    }
    let at = dir.path().display().to_string();
    fs::create_dir(dir.path().join("www")).expect("room");
    // One send, so that a server without a CPU makes no pause in it.
    fs::write(dir.path().join("www/index.html"), vec![b'x'; 900]).expect("room");
    fs::write(dir.path().join("www/large"), vec![b'x'; 30_000]).expect("room");
    fs::write(dir.path().join("www/huge"), vec![b'x'; 1_000_000]).expect("room");
    let key = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=server"])
        .args(["-keyout", &format!("{at}/key"), "-out", &format!("{at}/certificate")])
        .output();
    assert!(key.is_ok_and(|made| made.status.success()), "openssl makes a certificate");
    let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let paths = paths.map(|name| format!("{name}_temp_path {at}/{name};\n")).concat();
    let text = format!(
        "daemon off; user root; worker_processes 1; pid {at}/pid; error_log {at}/error;\n\
        events {{ }}\n\
        http {{ access_log off; keepalive_requests 10000000; root {at}/www;\n{paths}\
        upstream files {{ server {SERVER}:{HTTP}; keepalive 4; }}\n\
        server {{ listen {SERVER}:{HTTP}; }}\n\
        server {{ listen {SERVER}:{HTTPS} ssl http2; ssl_certificate {at}/certificate; ssl_certificate_key {at}/key; }}\n\
        server {{ listen {SERVER}:{PROXY};\n\
        location / {{ proxy_pass http://files; proxy_http_version 1.1; proxy_set_header Connection \"\"; }} }} }}\n"
    );
    fs::write(dir.path().join("nginx.conf"), text).expect("room");
    let mut command = Command::new("nginx");
    command.args(["-c", &format!("{at}/nginx.conf")]);
    Some(start(hosts, command, HTTP))
}

/// Redis without files.
pub fn redis(test: &str, hosts: &Hosts, dir: &TempDir) -> Option<Server> {
    if !tool(test, "redis-server") {
        return None;
    }
    Some(start(hosts, redis_command(Command::new("redis-server"), dir), REDIS))
}

/// Redis that runs on the first CPU, and only when nobody else wants it.
pub fn starved_redis(test: &str, hosts: &Hosts, dir: &TempDir) -> Option<Server> {
    if !tool(test, "redis-server") || !tool(test, "chrt") {
        return None;
    }
    let mut command = Command::new("taskset");
    command.args(["-c", "0", "chrt", "--idle", "0", "redis-server"]);
    Some(start(hosts, redis_command(command, dir), REDIS))
}

/// Adds the arguments of Redis.
fn redis_command(mut command: Command, dir: &TempDir) -> Command {
    command.args([
        "--port",
        &REDIS.to_string(),
        "--bind",
        SERVER,
        "--save",
        "",
        "--enable-debug-command",
        "yes",
    ]);
    command.args(["--protected-mode", "no", "--dir", &dir.path().display().to_string()]);
    command
}

/// The path of a script of these tests.
fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/requests").join(name)
}

/// `page.py` as a server, in front of Redis.
pub fn page_server(hosts: &Hosts) -> Server {
    let mut command = Command::new("python3");
    command.arg(script("page.py")).args(["serve", SERVER, &PAGE.to_string(), &REDIS.to_string()]);
    start(hosts, command, PAGE)
}

/// `rpc.py` as a server of gRPC, and the Python that has it.
pub fn rpc_server(test: &str, hosts: &Hosts) -> Option<(Server, PathBuf)> {
    let python = python_with(test, "grpc")?;
    let mut command = Command::new(&python);
    command.arg(script("rpc.py")).args(["serve", SERVER, &RPC.to_string()]);
    Some((start(hosts, command, RPC), python))
}

/// `rpc.py` as a client: begin, end and number of requests of each call.
pub fn rpc(hosts: &Hosts, python: &Path, kind: &str, calls: usize) -> Talk {
    let mut command = Command::new(python);
    command.arg(script("rpc.py")).args([kind, SERVER, &RPC.to_string(), &calls.to_string()]);
    Talk::of(&client(hosts, command))
}

/// `page.py` as a client, which asks for these words.
pub fn page(hosts: &Hosts, words: &[&str]) -> Talk {
    let mut command = Command::new("python3");
    command.arg(script("page.py")).args(["ask", SERVER, &PAGE.to_string()]).args(words);
    Talk::of(&client(hosts, command))
}

/// unbound with one name of its own.
pub fn unbound(test: &str, hosts: &Hosts, dir: &TempDir) -> Option<Server> {
    if !tool(test, "unbound") {
        return None;
    }
    let at = dir.path().display().to_string();
    let text = format!(
        "server:\n interface: {SERVER}\n port: {DNS}\n do-daemonize: no\n username: \"\"\n chroot: \"\"\n \
        directory: \"{at}\"\n pidfile: \"{at}/pid\"\n use-syslog: no\n logfile: \"{at}/log\"\n \
        access-control: 10.0.0.0/8 allow\n local-zone: \"test.\" static\n local-data: \"www.test. IN A 192.0.2.1\"\n"
    );
    let path = dir.path().join("unbound.conf");
    fs::write(&path, text).expect("room");
    let mut command = Command::new("unbound");
    command.arg("-c").arg(path);
    Some(start(hosts, command, DNS))
}

/// The folder of Postgres' programs.
fn postgres_programs(test: &str) -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found = versions.map(|version| version.path().join("bin")).find(|bin| bin.join("pgbench").exists());
    if found.is_none() {
        skipped(test, "PostgreSQL is not there: `scripts/setup-clients.sh`");
    }
    found
}

/// Postgres with pgbench's tables, and the folder of its programs.
pub fn postgres(test: &str, hosts: &Hosts, dir: &TempDir) -> Option<(Server, PathBuf)> {
    let bin = postgres_programs(test)?;
    // It refuses to run as root.
    chown(dir.path(), Some(NOBODY), Some(NOBODY)).expect("root may");
    let data = dir.path().join("data");
    let as_user = |program: &str| {
        let mut command = Command::new(bin.join(program));
        command.uid(NOBODY).gid(NOBODY).current_dir("/").env("HOME", dir.path());
        command
    };
    let made = as_user("initdb").arg("-D").arg(&data).args(["-A", "trust", "-U", "bench", "-N"]).output();
    assert!(made.is_ok_and(|made| made.status.success()), "initdb");
    fs::write(data.join("pg_hba.conf"), "host all all all trust\n").expect("room");
    let mut command = as_user("postgres");
    command.arg("-D").arg(&data).args(["-p", &POSTGRES.to_string(), "-h", SERVER, "-k", ""]);
    command.args(["-c", "fsync=off", "-c", "dynamic_shared_memory_type=mmap"]);
    let server = start(hosts, command, POSTGRES);
    // It accepts connections before it answers them.
    let is_ready = || {
        let asked = as_user("pg_isready").args(["-q", "-h", SERVER, "-p", &POSTGRES.to_string()]).status();
        asked.is_ok_and(|status| status.success())
    };
    assert!(in_namespace(&hosts.names[0], || eventually(is_ready)), "PostgreSQL is ready");
    Some((server, bin))
}

/// Runs a client to its end on the client's host.
pub fn client(hosts: &Hosts, mut command: Command) -> Output {
    in_namespace(&hosts.names[0], || command.output().expect("the client starts"))
}

/// A talk of `client.py`: its port, and begin, end and number of requests of each note.
pub struct Talk {
    pub port: u64,
    /// Segments that the kernel says it sent again, if the client asked it.
    pub resent: Option<u64>,
    pub notes: Vec<(u64, u64, u64)>,
}

/// Runs `client.py`.
pub fn talk(hosts: &Hosts, kind: &str, port: u16, requests: usize, path: &str) -> Talk {
    let mut command = Command::new("python3");
    command.arg(script("client.py")).args([kind, SERVER, &port.to_string(), &requests.to_string(), path]);
    Talk::of(&client(hosts, command))
}

impl Talk {
    /// What a client printed.
    fn of(output: &Output) -> Self {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let printed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let number = |note: &Value, key: &str| note[key].as_u64().expect("a number");
        let notes = printed["requests"].as_array().expect("notes").iter();
        let notes =
            notes.map(|note| (number(note, "begin_ns"), number(note, "end_ns"), number(note, "requests")));
        let port = printed["port"].as_u64().expect("a port");
        Talk { port, resent: printed["resent"].as_u64(), notes: notes.collect() }
    }
}
