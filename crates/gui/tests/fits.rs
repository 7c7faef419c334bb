//! No text is cut: every view of every kind of capture, at three sizes of the window.
//!
//! The shapes of a frame have each text with the part of it that is drawn. Rows at the edge of a scrolled area are cut
//! from above or below, which is no fault.

use crate::common;

use common::{Bench, chosen, compared, scopes, window};
use egui::epaint::{ClippedShape, Shape, TextShape};
use egui::{Rect, Vec2};
use egui_kittest::Harness;
use magscope_gui::{Chosen, Light};
use magscope_scope::{Scope, View};

/// Empty space beside a glyph that counts as a part of it, points.
const EDGE: f32 = 2.5;
const SIZES: [[f32; 2]; 3] = [[1280.0, 800.0], [1440.0, 900.0], [1920.0, 1080.0]];

/// Calls `of` with every text of a frame and the rectangle that it is drawn in.
fn texts(shapes: &[ClippedShape], of: &mut impl FnMut(&TextShape, Rect)) {
    fn inside(shape: &Shape, clip: Rect, of: &mut impl FnMut(&TextShape, Rect)) {
        match shape {
            Shape::Text(text) => of(text, clip),
            Shape::Vec(shapes) => {
                for shape in shapes {
                    inside(shape, clip, of);
                }
            }
            _ => {}
        }
    }
    for shape in shapes {
        inside(&shape.shape, shape.clip_rect, of);
    }
}

/// The texts that are shortened, or cut at the left or the right.
fn cut(harness: &Harness<'_, Bench>) -> Vec<String> {
    let mut cut = Vec::new();
    texts(&harness.output().shapes, &mut |text, clip| {
        let rect = text.visual_bounding_rect();
        let is_seen = rect.is_positive() && clip.intersects(rect.shrink(0.5));
        let is_cut = rect.left() < clip.left() - EDGE || rect.right() > clip.right() + EDGE;
        if is_seen && (text.galley.elided || is_cut) {
            let by = (clip.left() - rect.left()).max(rect.right() - clip.right());
            cut.push(format!("{:?}, by {by:.1} points", text.galley.text()));
        }
    });
    cut
}

#[test]
fn no_text_of_the_bars_covers_another_in_a_small_window() {
    /// The bar at the top, and the status at the bottom, points.
    const BARS: (f32, f32) = (64.0, 572.0);
    let mut faults = Vec::new();
    for (kind, scope) in scopes::KINDS {
        let mut harness = window(scope(), chosen(Light::Dark), [800.0, 600.0]);
        harness.run_steps(4);
        let mut drawn: Vec<(String, Rect)> = Vec::new();
        texts(&harness.output().shapes, &mut |text, clip| {
            let rect = text.visual_bounding_rect().intersect(clip).shrink(EDGE);
            if rect.is_positive() && (rect.bottom() < BARS.0 || rect.top() > BARS.1) {
                drawn.push((text.galley.text().to_owned(), rect));
            }
        });
        assert!(!drawn.is_empty());
        for (at, (text, rect)) in drawn.iter().enumerate() {
            let covered = drawn[at + 1..].iter().filter(|(_, other)| other.intersects(*rect));
            faults.extend(covered.map(|(other, _)| format!("{kind}: {text:?} and {other:?}")));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn no_name_of_a_lane_covers_another_in_a_low_window() {
    /// Width of the names at the left of the picture, points.
    const NAMES: f32 = 134.0;
    let mut faults = Vec::new();
    for (kind, scope) in scopes::KINDS {
        let harness = window(scope(), chosen(Light::Dark), [640.0, 460.0]);
        let picture = harness.state().front.picture().expect("a picture");
        let mut drawn: Vec<(String, Rect)> = Vec::new();
        texts(&harness.output().shapes, &mut |text, clip| {
            let rect = text.visual_bounding_rect().intersect(clip).shrink(EDGE);
            let is_name = rect.right() < picture.left() + NAMES && picture.y_range().contains(rect.center().y);
            if rect.is_positive() && is_name {
                drawn.push((text.galley.text().to_owned(), rect));
            }
        });
        assert!(!drawn.is_empty(), "{kind}");
        for (at, (text, rect)) in drawn.iter().enumerate() {
            let covered = drawn[at + 1..].iter().filter(|(_, other)| other.intersects(*rect));
            faults.extend(covered.map(|(other, _)| format!("{kind}: {text:?} and {other:?}")));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn no_text_is_cut_in_any_view_at_any_size() {
    let mut faults = Vec::new();
    let mut harness = window(scopes::idle(), chosen(Light::Dark), SIZES[0]);
    harness.state_mut().front.show_compared(compared());
    harness.run_steps(4);
    faults.extend(cut(&harness).into_iter().map(|text| format!("comparison: {text}")));
    for (kind, scope) in scopes::KINDS.into_iter().chain([("lacking", scopes::lacking as fn() -> Scope)]) {
        let mut harness = window(scope(), chosen(Light::Dark), SIZES[0]);
        for size in SIZES {
            harness.set_size(Vec2::from(size));
            for (tab, _) in View::tabs() {
                let now = Chosen { tab, below_height: 330.0, ..chosen(Light::Dark) };
                harness.state_mut().front.chosen = now;
                harness.run_steps(3);
                if (kind, tab) == ("sums", View::Flows) && size[0] < 1920.0 {
                    continue; // flows with sums have three columns more, and scroll to the side
                }
                let at = format!("{kind}, {}, {}", tab.spec().name, size[0]);
                faults.extend(cut(&harness).into_iter().map(|text| format!("{at}: {text}")));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
