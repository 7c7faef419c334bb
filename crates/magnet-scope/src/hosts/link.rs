//! Joins two namespaces with a veth pair and gives both ends their addresses, by iproute2's `ip`.

use super::namespace::Netns;
use crate::failure::Hint;
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// The server's addresses.
pub const SERVER: (&str, &str) = ("10.77.0.2", "fd77::2");
const CLIENT: (&str, &str) = ("10.77.0.1", "fd77::1");

/// True if this kernel has IPv6.
pub fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}

/// Creates the pair and brings it up. Each end is a namespace and a process in it. Leaves this thread in one of
/// the two.
pub fn join(client: (&Netns, u32), server: (&Netns, u32)) -> Result<()> {
    client.0.enter()?;
    // Created inside, so that no link appears in the host's own namespace.
    ip(&format!("link add veth0 type veth peer name veth0 netns {}", server.1))?;
    address(CLIENT)?;
    server.0.enter()?;
    address(SERVER)
}

fn address((v4, v6): (&str, &str)) -> Result<()> {
    let mut commands = vec!["link set lo up".to_owned(), "link set veth0 up".to_owned()];
    commands.push(format!("addr add {v4}/24 dev veth0"));
    if has_ipv6() {
        // Duplicate address detection would delay IPv6 by a second, and the host may disable IPv6 for new
        // interfaces. If these writes fail, `ip` reports the error.
        for (setting, value) in [("disable_ipv6", "0"), ("accept_dad", "0")] {
            let _ = fs::write(format!("/proc/sys/net/ipv6/conf/veth0/{setting}"), value);
        }
        commands.push(format!("addr add {v6}/64 dev veth0 nodad"));
    }
    ip(&commands.join("\n"))
}

/// Runs `ip` commands, one per line, in this thread's namespace.
fn ip(commands: &str) -> Result<()> {
    let path =
        ["/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip", "/bin/ip"].into_iter().find(|p| Path::new(p).exists());
    let Some(path) = path else {
        return Err(Hint::error(
            "`ip` was not found, so the demo's hosts cannot be joined",
            "iproute2 is not installed",
            "install it: `apt-get install iproute2`, `dnf install iproute` or `pacman -S iproute2`",
        ));
    };
    let mut child = Command::new(path)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {path}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(commands.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!(
            "`ip` could not set up the demo's link ({}): {}",
            commands.lines().next().unwrap_or_default(),
            stderr.trim()
        );
    }
    Ok(())
}
