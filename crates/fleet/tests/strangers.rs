//! Rejected clients, and harmless requests of accepted ones.

use crate::common;

use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::{Action, FlightDescriptor, Ticket};
use common::{Came, Serving, authority, batch, connect, eventually, info, viewer};
use magscope_fleet::pki::{Folder, Validity};
use magscope_fleet::{Address, FleetError, Grants, Likely, Memory, StartAt, Terms};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;
use tonic::Code;

const ALL: u64 = 64 << 20;

/// An agent behind TLS with some data.
fn agent(folder: &Folder) -> (Arc<Memory>, Serving) {
    let (memory, mut writer) = Memory::new(info(), ALL).expect("Arrow");
    (0..10).for_each(|n| writer.push(&batch(n)).expect("kept"));
    std::mem::forget(writer); // its capture runs until the end of the test
    let serving = Serving::start(&memory, 0, Some((folder.clone(), "host-web-1")));
    (memory, serving)
}

fn refusal(address: Address, folder: &Folder, identity: &str) -> (Likely, String) {
    match connect(address, viewer(folder, identity), StartAt::Now, Terms::default()) {
        Err(FleetError::Connect { likely, because, .. }) => (likely, because),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("{identity} was let in"),
    }
}

fn lets_in(address: Address, folder: &Folder) {
    let back = StartAt::Back(Duration::from_secs(9));
    let mut remote = connect(address, viewer(folder, "viewer-me"), back, Terms::default()).expect("let in");
    Came::default().read(&mut remote, 1_000, || {});
}

#[test]
fn certificates_that_are_not_good_are_refused() {
    let (_dir, folder) = authority();
    let (_memory, serving) = agent(&folder);
    lets_in(serving.tls(), &folder);

    // A viewer of another authority that also has this authority's certificate.
    let (_other_dir, other) = authority();
    std::fs::copy(folder.path().join("ca.pem"), other.path().join("ca.pem")).expect("a file");
    // A viewer needs no list, and a list of another authority is refused.
    std::fs::remove_file(other.path().join("crl.pem")).expect("a file");
    let (likely, because) = refusal(serving.tls(), &other, "viewer-me");
    assert_eq!(likely, Likely::Viewer, "{because}");
    assert!(serving.has_message("is not let in: invalid peer certificate"), "{:?}", serving.messages);

    let now = SystemTime::now();
    let day = Duration::from_hours(24);
    let past = Validity { from: now - 2 * day, to: now - day };
    folder.viewer("late", &Grants::default(), past).expect("it is made");
    let (likely, because) = refusal(serving.tls(), &folder, "viewer-late");
    assert_eq!(likely, Likely::Viewer, "{because}");
    assert!(because.contains("xpired"), "{because}");

    folder.viewer("gone", &Grants::default(), Validity::days(1)).expect("it is made");
    folder.viewer("gone-too", &Grants::default(), Validity::days(1)).expect("it is made");
    folder.revoke("viewer-gone").expect("it is revoked");
    folder.revoke("viewer-gone-too").expect("it is revoked, and the first stays so");
    for identity in ["viewer-gone", "viewer-gone-too"] {
        let (likely, because) = refusal(serving.tls(), &folder, identity);
        assert_eq!(likely, Likely::Viewer, "{because}");
        assert!(because.contains("evoked"), "{because}");
    }

    // A host's certificate is valid for a relay that reads another agent; a viewer's is invalid for an agent.
    let (likely, because) = {
        let (memory, _writer) = Memory::new(info(), ALL).expect("Arrow");
        let false_agent = Serving::start(&memory, 0, Some((folder.clone(), "viewer-me")));
        refusal(false_agent.tls(), &folder, "viewer-me")
    };
    assert_eq!(likely, Likely::Agent, "{because}");

    // No certificate.
    let mut session = rustls::ClientConnection::new(
        Arc::new(no_certificate(&folder)),
        "127.0.0.1".try_into().expect("a name"),
    )
    .expect("a session");
    let mut stream = TcpStream::connect(("127.0.0.1", serving.port)).expect("it listens");
    let mut tls = rustls::Stream::new(&mut session, &mut stream);
    let _ = tls.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    let refused = tls.read(&mut [0; 64]).expect_err("it is not let in").to_string();
    assert!(refused.contains("CertificateRequired"), "{refused}");
    lets_in(serving.tls(), &folder);
}

/// A viewer that trusts the authority and has no certificate.
fn no_certificate(folder: &Folder) -> rustls::ClientConfig {
    use rustls::pki_types::pem::PemObject;
    let mut roots = rustls::RootCertStore::empty();
    let ca =
        rustls::pki_types::CertificateDer::from_pem_file(folder.path().join("ca.pem")).expect("a certificate");
    roots.add(ca).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    config.expect("versions").with_root_certificates(roots).with_no_client_auth()
}

#[test]
fn an_agent_that_is_not_who_it_should_be_is_not_read() {
    let (_dir, folder) = authority();
    let (_memory, serving) = agent(&folder);
    // The name is missing in the certificate.
    let by_name: Address = format!("localhost:{}", serving.port).parse().expect("an address");
    let (likely, because) = refusal(by_name, &folder, "viewer-me");
    assert_eq!(likely, Likely::Agent, "{because}");
    // The viewer trusts another authority.
    let (_other_dir, other) = authority();
    let (likely, because) = refusal(serving.tls(), &other, "viewer-me");
    assert_eq!(likely, Likely::Agent, "{because}");
    // The port is closed.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let (likely, because) = refusal(nobody.to_string().parse().expect("an address"), &folder, "viewer-me");
    assert_eq!(likely, Likely::Nobody, "{because}");
}

/// A plain client of an agent without TLS.
async fn client(port: u16) -> FlightServiceClient<tonic::transport::Channel> {
    let endpoint =
        tonic::transport::Endpoint::from_shared(format!("http://127.0.0.1:{port}")).expect("an address");
    FlightServiceClient::new(endpoint.connect().await.expect("it listens"))
}

#[test]
fn absurd_requests_are_refused_in_words() {
    let (memory, mut writer) = Memory::new(info(), ALL).expect("Arrow");
    (0..10).for_each(|n| writer.push(&batch(n)).expect("kept"));
    let serving = Serving::start(&memory, 0, None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut client = client(serving.port).await;
        for (ticket, code) in [
            (Vec::new(), Code::InvalidArgument),
            (vec![0xff; 1_000], Code::InvalidArgument),
            (b"[".repeat(60_000), Code::InvalidArgument),
            (br#"{"table":"secrets"}"#.to_vec(), Code::NotFound),
            (br#"{"table":"events","filter":"port"}"#.to_vec(), Code::InvalidArgument),
            (br#"{"table":"events","filter":"uid = root"}"#.to_vec(), Code::InvalidArgument),
            (br#"{"table":"events","command":"rm"}"#.to_vec(), Code::InvalidArgument),
            (br#"{"table":"events","flows_one_in":-1}"#.to_vec(), Code::InvalidArgument),
        ] {
            let refused = client.do_get(Ticket { ticket: ticket.into() }).await.expect_err("it is refused");
            assert_eq!(refused.code(), code, "{refused}");
            assert!(!refused.message().is_empty());
        }
        // Longer than any valid ticket: refused before parsing.
        assert!(client.do_get(Ticket { ticket: vec![b' '; 8 << 20].into() }).await.is_err());
        let flight =
            client.get_flight_info(FlightDescriptor::new_path(vec!["a".into(), "b".into(), "c".into()])).await;
        assert_eq!(flight.expect_err("it is refused").code(), Code::InvalidArgument);
        let action = Action { r#type: "shutdown".into(), ..Action::default() };
        assert_eq!(client.do_action(action).await.expect_err("it is refused").code(), Code::Unimplemented);
        // Positions far out of range.
        for from in [
            r#"{"at":18446744073709551615}"#,
            r#"{"after":{"stream":"x","number":18446744073709551615,"records":0}}"#,
        ] {
            let ticket = format!(r#"{{"table":"events","from":{from},"pull":true}}"#);
            let mut rows =
                client.do_get(Ticket { ticket: ticket.into() }).await.expect("a stream").into_inner();
            while rows.message().await.expect("rows").is_some() {}
        }
    });
    let mut remote = connect(serving.plain(), None, StartAt::Back(Duration::from_secs(9)), Terms::default())
        .expect("let in");
    Came::default().read(&mut remote, 1_000, || {});
}

#[test]
fn so_many_streams_and_no_more() {
    let (memory, _writer) = Memory::new(info(), ALL).expect("Arrow");
    let serving = Serving::start(&memory, 0, None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (mut streams, mut refused) = (Vec::new(), 0);
        for _ in 0..4 {
            let mut client = client(serving.port).await;
            for _ in 0..12 {
                let ticket = Ticket { ticket: br#"{"table":"packets"}"#.to_vec().into() };
                match client.do_get(ticket).await {
                    Ok(stream) => streams.push(stream),
                    Err(status) => {
                        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
                        refused += 1;
                    }
                }
            }
        }
        assert_eq!((streams.len(), refused), (16, 32), "an identity has half of them");
    });
    // After the connections have ended there is room again.
    drop(runtime);
    assert!(eventually(|| memory.readers() == 0));
    assert!(connect(serving.plain(), None, StartAt::Now, Terms::default()).is_ok());
}

#[test]
fn noise_and_silence_at_the_door_harm_nobody() {
    let (_dir, folder) = authority();
    let (_memory, serving) = agent(&folder);
    let mut silent = Vec::new();
    for n in 0..200_u8 {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", serving.port)) else { continue };
        if n % 2 == 0 {
            let noise: Vec<u8> =
                (0..1_000_u32).map(|i| (i.wrapping_mul(u32::from(n) + 7) >> 3) as u8).collect();
            let _ = stream.write_all(&noise);
        } else {
            silent.push(stream);
        }
    }
    // Silent clients block no others.
    assert!(eventually(|| {
        let back = StartAt::Back(Duration::from_secs(9));
        let remote = connect(serving.tls(), viewer(&folder, "viewer-me"), back, Terms::default());
        remote.is_ok_and(|mut remote| {
            Came::default().read(&mut remote, 1_000, || {});
            true
        })
    }));
    assert!(eventually(|| serving.has_message(" is not let in: ")));
    assert!(eventually(|| serving.has_message("more connections are not let in")), "the rest is a count");
}

#[test]
fn keys_are_for_their_owner_and_nothing_is_made_twice() {
    use std::os::unix::fs::PermissionsExt;
    let (dir, folder): (TempDir, Folder) = authority();
    for name in ["ca.key", "host-web-1.key", "viewer-me.key"] {
        let mode = std::fs::metadata(folder.path().join(name)).expect("a key").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert!(!folder.init(Validity::days(1)).expect("there is one"));
    assert!(folder.viewer("me", &Grants::default(), Validity::days(1)).is_err());
    assert!(folder.viewer("../me", &Grants::default(), Validity::days(1)).is_err());
    assert!(folder.revoke("viewer-nobody").is_err());
    folder.host(&["web-2".into()], Validity::days(1)).expect("it is made");
    let several = folder.only("host").expect_err("either could be meant").to_string();
    assert!(several.ends_with("several certificates: host-web-1, host-web-2"), "{several}");
    assert_eq!(folder.only("viewer").expect("one"), "viewer-me");
    assert!(Folder::new(dir.path().join("none")).only("viewer").is_err());
}
