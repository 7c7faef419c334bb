//! No input breaks it: keys at random, zooms beyond reason, nothing at all, one event, many flows.

mod common;

use common::{SECOND, busy, chosen, two_hosts, window};
use egui::{Event, Modifiers, MouseWheelSource, MouseWheelUnit, PointerButton, Pos2, TouchPhase, Vec2};
use magscope_core::node::NodeInfo;
use magscope_core::{Batch, Event as Hit, Flow, FlowId, Hop, Proto};
use magscope_gui::{Chosen, Light, Tab};
use magscope_scope::{Action, Options, Scope};
use std::net::{Ipv4Addr, SocketAddr};

const SIZE: [f32; 2] = [900.0, 600.0];

fn every_tab(scope: impl Fn() -> Scope) {
    for (tab, _) in Tab::ALL {
        let mut harness = window(scope(), Chosen { tab, ..chosen(Light::Dark) }, SIZE);
        harness.run_steps(2);
    }
}

#[test]
fn nothing_at_all_and_one_event() {
    every_tab(|| Scope::new(NodeInfo::default(), Options::default()));
    every_tab(|| {
        let mut scope = Scope::new(common::made_up::info(), Options::default());
        let events = vec![Hit::at(Hop::IpIn, 5)];
        scope.ingest(&Batch { events, watermark_ns: 5, ..Batch::default() });
        scope.end();
        scope
    });
}

#[test]
fn zooms_from_a_nanosecond_to_ten_years() {
    let year = 365 * 86_400 * SECOND;
    for (from_ns, to_ns) in [
        (0, 1),
        (0, 10 * year),
        (u64::MAX - 1, u64::MAX),
        (0, u64::MAX),
        (common::made_up::START_NS, common::made_up::START_NS + 1),
        (common::made_up::START_NS, common::made_up::START_NS),
    ] {
        let mut harness = window(two_hosts(), chosen(Light::Light), SIZE);
        harness.state_mut().apply(Action::ZoomTo { from_ns, to_ns });
        harness.state_mut().apply(Action::ToggleCursors);
        harness.run_steps(2);
        for by in [f64::MAX, f64::MIN, f64::NAN, 1e300, -1e300] {
            harness.state_mut().apply(Action::PanBy(by));
            harness.state_mut().apply(Action::Zoom { steps: i32::MAX, at: by });
            harness.state_mut().apply(Action::Zoom { steps: i32::MIN, at: -by });
            harness.run_steps(1);
        }
    }
}

#[test]
fn many_flows_are_a_table_and_not_a_wall() {
    // Thirty thousand here, so that the test ends.
    let mut scope = Scope::new(common::made_up::info(), Options::default());
    for chunk in 0..30_u64 {
        let (mut events, mut flows) = (Vec::new(), Vec::new());
        for n in chunk * 1000..(chunk + 1) * 1000 {
            let end =
                |port: u64| SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + (n >> 14) as u32), port as u16));
            let id = FlowId(n + 1);
            flows.push(Flow { id, netns: 1, proto: Proto::UDP, local: end(n & 0x3fff), remote: end(53) });
            let at = n * 1_000;
            for (hop, later) in [(Hop::IpOut, 0), (Hop::DevXmit, 500)] {
                events.push(Hit {
                    flow: id,
                    len: 64,
                    ip_id: n as u16,
                    skb: n as u32 + 1,
                    proto: Proto::UDP,
                    ..Hit::at(hop, at + later)
                });
            }
        }
        let watermark_ns = (chunk + 1) * 1_000_000;
        scope.ingest(&Batch { events, flows, watermark_ns, ..Batch::default() });
    }
    let mut harness =
        window(scope, Chosen { tab: Tab::Flows, below_height: 300.0, ..chosen(Light::Dark) }, SIZE);
    harness.run_steps(3);
}

#[test]
fn random_input_does_no_harm() {
    let mut state = 0x5eed_u64;
    let mut dice = |n: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % n
    };
    let keys = "1234567abcdefghijklmnoprstuvwxyzABCDEFGHLMOPRTVWXY+-_=/:@(){}[]<>,.* ?";
    let keys: Vec<char> = keys.chars().collect();
    let mut harness = window(busy(), chosen(Light::Dark), SIZE);
    for round in 0..240 {
        let at = Pos2::new(dice(900) as f32, dice(600) as f32);
        match dice(8) {
            0 => harness.event(Event::PointerMoved(at)),
            1 | 2 => {
                let button =
                    [PointerButton::Primary, PointerButton::Secondary, PointerButton::Middle][dice(3) as usize];
                harness.event(Event::PointerMoved(at));
                for pressed in [true, false] {
                    harness.event(Event::PointerButton {
                        pos: at,
                        button,
                        pressed,
                        modifiers: Modifiers::NONE,
                    });
                }
            }
            3 => harness.event(Event::MouseWheel {
                unit: MouseWheelUnit::Line,
                delta: Vec2::new(dice(9) as f32 - 4.0, dice(9) as f32 - 4.0),
                phase: TouchPhase::Move,
                source: MouseWheelSource::Wheel,
                modifiers: Modifiers::NONE,
            }),
            4 => harness.key_press([egui::Key::Escape, egui::Key::Enter, egui::Key::Tab][dice(3) as usize]),
            _ => harness.event(Event::Text(keys[dice(keys.len() as u64) as usize].to_string())),
        }
        harness.run_steps(1);
        if round % 40 == 39 {
            harness.key_press(egui::Key::Escape);
            harness.run_steps(1);
        }
    }
}
