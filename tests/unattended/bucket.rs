//! A local S3 server (moto), and Amazon's client.

use crate::common::exports;
use crate::common::{eventually, magnet_scope};
use serde_json::Value;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

pub struct Bucket {
    python: PathBuf,
    port: u16,
}

/// The server, ended on drop.
pub struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Bucket {
    /// A free port for the server.
    pub fn new(test: &str) -> Option<Self> {
        let python = exports::python_with(test, "boto3, moto.server")?;
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
        Some(Bucket { python, port })
    }

    pub fn serve(&self) -> Server {
        let port = self.port.to_string();
        let child = Command::new(&self.python)
            .args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let server = Server(child.expect("Python runs"));
        assert!(eventually(|| TcpStream::connect(("127.0.0.1", self.port)).is_ok()), "it listens");
        server
    }

    /// Environment variables for the server.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ACCESS_KEY_ID", "test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port)),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("NO_PROXY", "127.0.0.1".to_owned()),
        ]
    }

    /// Runs Amazon's client.
    pub fn client(&self, what: &str, more: &[&Path]) -> Value {
        let endpoint = format!("http://127.0.0.1:{}", self.port);
        let mut arguments = vec![Path::new(what), Path::new(&endpoint), Path::new("captures")];
        arguments.extend(more);
        let output = exports::client("a bucket", "boto3", "s3.py", &arguments).expect("it was there before");
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// `magnet-scope ship`.
    pub fn ship(&self, dir: &Path, url: &str) -> Output {
        let mut command = magnet_scope(&["ship", &dir.display().to_string(), url]);
        command.envs(self.environment().iter().map(|(name, value)| (*name, value)));
        command.output().expect("the binary starts")
    }
}
