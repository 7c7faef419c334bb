//! The welcome page.

use crate::bar::{names, paths};
use crate::chosen::Chosen;
use crate::colours::Colours;
use crate::host_request::HostRequest;
use crate::overlays::Pick;
use egui::{Frame, RichText, Ui};

/// Draws the page. Returns the requested picker.
pub fn show(ui: &mut Ui, chosen: &Chosen, requests: &mut Vec<HostRequest>) -> Option<Pick> {
    let c = Colours::now(ui.ctx());
    let mut pick = None;
    egui::CentralPanel::default().frame(Frame::new().fill(c.back)).show(ui, |ui| {
        ui.vertical_centered(|ui| {
            ui.add_space((ui.available_height() * 0.22).max(10.0));
            ui.label(RichText::new("magnet-scope").size(30.0).color(c.text));
            ui.label(RichText::new("an oscilloscope for the Linux network stack").color(c.dim));
            ui.add_space(18.0);
            if ui.button(RichText::new("Open recordings …").size(16.0)).clicked() {
                pick = Some(Pick::Open);
            }
            ui.label(
                RichText::new("or drop their directories here; several, one a host, come on one time line")
                    .color(c.dim),
            );
            if !chosen.recent.is_empty() {
                ui.add_space(20.0);
                ui.label(RichText::new("recent").color(c.dim).small());
                for dirs in &chosen.recent {
                    if ui.link(names(dirs)).on_hover_text(paths(dirs)).clicked() {
                        requests.push(HostRequest::Open(dirs.clone()));
                    }
                }
            }
            ui.add_space(20.0);
            ui.label(
                RichText::new("live: magnet-scope gui --live   ·   record: magnet-scope record DIR")
                    .color(c.dim)
                    .small(),
            );
        });
    });
    pick
}
