//! `magscope-distributed worker` serves; `magscope-distributed join A B [--workers URL,URL] [SQL]` asks.

use datafusion_distributed::Worker;
use magscope_distributed::{JOIN, ask};
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use url::Url;

const USAGE: &str =
    "usage: magscope-distributed worker [ADDRESS]       (127.0.0.1:0 and what was taken is printed)
       magscope-distributed join A B [--workers URL,URL] [SQL]
A and B are exports of two hosts (--to parquet --buckets); in SQL their hops are the tables a and b.";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["worker"] => work("127.0.0.1:0").await,
        ["worker", address] => work(address).await,
        ["join", a, b] => join(a, b, "", JOIN).await,
        ["join", a, b, "--workers", workers] => join(a, b, workers, JOIN).await,
        ["join", a, b, "--workers", workers, sql] => join(a, b, workers, sql).await,
        ["join", a, b, sql] => join(a, b, "", sql).await,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn work(address: &str) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(address).await?;
    println!("http://{}", listener.local_addr()?);
    let server = Server::builder().add_service(Worker::default().into_worker_server());
    Ok(server.serve_with_incoming(TcpListenerStream::new(listener)).await?)
}

async fn join(a: &str, b: &str, workers: &str, sql: &str) -> Result<(), Box<dyn Error>> {
    let workers = workers.split(',').filter(|url| !url.is_empty()).map(Url::parse);
    let workers = workers.collect::<Result<Vec<_>, _>>()?;
    let begun = Instant::now();
    let answer = ask(Path::new(a), Path::new(b), &workers, sql).await?;
    let took = begun.elapsed();
    println!("{}", answer.plan);
    println!("{}", answer.table()?);
    println!("{:.3} s", took.as_secs_f64());
    Ok(())
}
