//! One signal against another over the visible time: older points fainter.

use crate::chart::{Axis, Chart};
use crate::loadlines::value;
use crate::time::Ink;
use crate::ui_context::UiContext;
use egui::{Rect, RichText, Role, Sense, Ui, WidgetInfo};
use magscope_scope::{Action, Channel, Frame};

/// Draws the panel.
pub fn show(ui: &mut Ui, frame: &Frame, cx: &mut UiContext) {
    let now = frame.controls.xy.unwrap_or((Channel::Srtt, Channel::Cwnd));
    let all = frame.channels();
    ui.horizontal_wrapped(|ui| {
        let mut chosen = now;
        ui.label("to the right");
        choose(ui, "x", &mut chosen.0, &all);
        ui.label("up");
        choose(ui, "y", &mut chosen.1, &all);
        if chosen != now || (frame.controls.xy.is_none() && ui.button("Draw").clicked()) {
            cx.act(Action::SetXy(Some(chosen)));
        }
        if frame.controls.xy.is_some()
            && ui.button("None").on_hover_text("draw no signal against another").clicked()
        {
            cx.act(Action::SetXy(None));
        }
    });
    let Some(xy) = frame.xy() else {
        ui.label(
            RichText::new("two signals of the picked connection, or the busiest, against each other")
                .color(cx.c.dim),
        );
        return;
    };
    let (rect, response) = ui.allocate_exact_size(ui.available_size(), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Image, true, format!("{} against {}", xy.y, xy.x)));
    let wider = |(from, to): (f64, f64)| {
        let more = (to - from).abs().max(to.abs() * 0.01) * 0.06;
        Axis::new(from - more, to + more, false)
    };
    let chart = Chart::new(rect, wider(xy.x_range), wider(xy.y_range));
    let words = |channel: Channel| move |v: f64| value(channel.unit(), v).trim().to_owned();
    chart.frame(ui.painter(), words(xy.x), words(xy.y), cx);
    let mut ink = Ink::new(chart.area, true);
    let all = xy.points.len().max(1) as f32;
    let mut before = None;
    for (n, point) in xy.points.iter().enumerate() {
        let at = chart.at(point.x, point.y);
        let colour = cx.c.series[0].gamma_multiply(0.25 + 0.75 * n as f32 / all);
        if let Some(before) = before {
            ink.line(before, at, 0.8, colour.gamma_multiply(0.35));
        }
        ink.block(Rect::from_center_size(at, egui::vec2(3.0, 3.0)), colour);
        before = Some(at);
    }
    ui.painter().add(ink.mesh());
}

fn choose(ui: &mut Ui, name: &str, channel: &mut Channel, all: &[Channel]) {
    let response =
        egui::ComboBox::from_id_salt(name).selected_text(channel.name().to_owned()).show_ui(ui, |ui| {
            for one in all {
                ui.selectable_value(channel, *one, one.name());
            }
        });
    response.response.widget_info(|| WidgetInfo::labeled(Role::ComboBox, true, format!("signal {name}")));
}
