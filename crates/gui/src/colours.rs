//! The colours: two muted palettes, with one accent for selection, and red for loss and drops of the network alone.

use egui::{
    Color32, Context, CornerRadius, FontData, FontDefinitions, FontFamily, FontId, Margin, Stroke, TextStyle,
    Theme, Vec2, Visuals,
};

use std::sync::Arc;

/// A palette.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colours {
    /// Background.
    pub back: Color32,
    /// Panel background.
    pub panel: Color32,
    /// Background of every other stack layer and table row.
    pub stripe: Color32,
    /// Graticule and rules.
    pub grid: Color32,
    /// Text and numbers.
    pub text: Color32,
    /// Secondary text.
    pub dim: Color32,
    /// Selection.
    pub accent: Color32,
    /// Loss and drops of the network, and nothing else.
    pub bad: Color32,
    /// Events that the instrument missed.
    pub missed: Color32,
    /// A certain value.
    pub good: Color32,
    /// Default colour of lifelines.
    pub line: Color32,
    /// The wire's band.
    pub wire: Color32,
    /// Many fast events.
    pub quick: Color32,
    /// Slow events.
    pub slow: Color32,
    /// Distinct colours, also for colour-blind users.
    pub series: [Color32; 8],
}

const fn rgb(hex: u32) -> Color32 {
    Color32::from_rgb((hex >> 16) as u8, (hex >> 8) as u8, hex as u8)
}

/// Light on dark.
pub const DARK: Colours = Colours {
    back: rgb(0x11_151b),
    panel: rgb(0x17_1c24),
    stripe: rgb(0x16_1b23),
    grid: rgb(0x29_313d),
    text: rgb(0xd6_dce6),
    dim: rgb(0x8b_96a7),
    accent: rgb(0xff_c857),
    bad: rgb(0xf2_5f5c),
    missed: rgb(0xb3_9dff),
    good: rgb(0x6f_cf97),
    line: rgb(0x7f_9bbd),
    wire: rgb(0x1d_2733),
    quick: rgb(0x3f_8fb5),
    slow: rgb(0xf0_a35e),
    series: [
        rgb(0x6c_b4ee),
        rgb(0x7f_d1ae),
        rgb(0xe3_b8e0),
        rgb(0xd9_c27e),
        rgb(0x9a_a8f0),
        rgb(0x57_c5cf),
        rgb(0xe0_a07a),
        rgb(0xb5_c2a0),
    ],
};

/// Dark on light.
pub const LIGHT: Colours = Colours {
    back: rgb(0xfc_fcfa),
    panel: rgb(0xf2_f3f1),
    stripe: rgb(0xf5_f6f4),
    grid: rgb(0xd5_d9dc),
    text: rgb(0x1e_2630),
    dim: rgb(0x5c_6875),
    accent: rgb(0xb4_5309),
    bad: rgb(0xc6_2828),
    missed: rgb(0x6a_3fb5),
    good: rgb(0x1f_7a4d),
    line: rgb(0x4a_6a8f),
    wire: rgb(0xe6_ebf0),
    quick: rgb(0x2a_7aa3),
    slow: rgb(0xa6_550f),
    series: [
        rgb(0x1f_6fb2),
        rgb(0x14_744b),
        rgb(0x9a_4f96),
        rgb(0x80_6507),
        rgb(0x4a_56c0),
        rgb(0x0c_747d),
        rgb(0xa8_552a),
        rgb(0x5c_6f3a),
    ],
};

impl Colours {
    /// The palette of a theme.
    pub fn of(theme: Theme) -> &'static Colours {
        match theme {
            Theme::Dark => &DARK,
            Theme::Light => &LIGHT,
        }
    }

    /// The palette of a context's theme.
    pub fn now(ctx: &Context) -> &'static Colours {
        Self::of(ctx.theme())
    }

    /// A colour derived from a hash.
    pub fn named(&self, hash: u64) -> Color32 {
        let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        self.series[(mixed % self.series.len() as u64) as usize]
    }

    /// A colour between fast (0) and slow (1).
    pub fn pace(&self, part: f32) -> Color32 {
        self.quick.lerp_to_gamma(self.slow, part.clamp(0.0, 1.0))
    }
}

/// Fonts for glyphs that egui's own fonts lack: arrows, symbols, and the scripts of process names.
fn fonts() -> FontDefinitions {
    let mut fonts = FontDefinitions::default();
    for (name, bytes, family) in [
        ("dejavu", dejavu::sans::regular(), FontFamily::Proportional),
        ("dejavu-mono", dejavu::sans_mono::regular(), FontFamily::Monospace),
    ] {
        fonts.font_data.insert(name.to_owned(), Arc::new(FontData::from_static(bytes)));
        fonts.families.entry(family).or_default().push(name.to_owned());
    }
    fonts
}

/// Sets fonts, sizes, spacing and colours of every widget, for both themes.
pub fn dress(ctx: &Context) {
    ctx.set_fonts(fonts());
    for theme in [Theme::Dark, Theme::Light] {
        let c = Colours::of(theme);
        let mut visuals = if theme == Theme::Dark { Visuals::dark() } else { Visuals::light() };
        visuals.panel_fill = c.panel;
        visuals.window_fill = c.panel;
        visuals.window_stroke = Stroke::new(1.0, c.grid);
        visuals.extreme_bg_color = c.back;
        visuals.faint_bg_color = c.stripe;
        visuals.override_text_color = Some(c.text);
        visuals.weak_text_color = Some(c.dim);
        visuals.hyperlink_color = c.accent;
        visuals.error_fg_color = c.bad;
        visuals.warn_fg_color = c.slow;
        visuals.selection.bg_fill = c.accent.gamma_multiply(0.28);
        visuals.selection.stroke = Stroke::new(1.0, c.accent);
        visuals.widgets.noninteractive.bg_stroke = Stroke::new(1.0, c.grid);
        visuals.widgets.noninteractive.fg_stroke = Stroke::new(1.0, c.text);
        for widget in [
            &mut visuals.widgets.inactive,
            &mut visuals.widgets.hovered,
            &mut visuals.widgets.active,
            &mut visuals.widgets.open,
            &mut visuals.widgets.noninteractive,
        ] {
            widget.corner_radius = CornerRadius::same(4);
        }
        visuals.widgets.inactive.weak_bg_fill = c.panel.lerp_to_gamma(c.text, 0.07);
        visuals.widgets.hovered.weak_bg_fill = c.panel.lerp_to_gamma(c.text, 0.14);
        visuals.widgets.active.weak_bg_fill = c.panel.lerp_to_gamma(c.text, 0.2);
        ctx.set_visuals_of(theme, visuals);
        ctx.style_mut_of(theme, |style| {
            let font = |size, family| FontId::new(size, family);
            style.text_styles = [
                (TextStyle::Small, font(11.5, FontFamily::Proportional)),
                (TextStyle::Body, font(13.5, FontFamily::Proportional)),
                (TextStyle::Button, font(13.5, FontFamily::Proportional)),
                (TextStyle::Heading, font(17.0, FontFamily::Proportional)),
                (TextStyle::Monospace, font(12.5, FontFamily::Monospace)),
            ]
            .into();
            style.spacing.item_spacing = Vec2::new(8.0, 5.0);
            style.spacing.button_padding = Vec2::new(8.0, 3.0);
            style.spacing.window_margin = Margin::same(14);
            style.spacing.interact_size.y = 24.0;
            style.animation_time = 0.0; // no animations
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance, WCAG 2.
    fn luminance(colour: Color32) -> f64 {
        let part = |byte: u8| {
            let s = f64::from(byte) / 255.0;
            if s <= 0.04045 { s / 12.92 } else { ((s + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(colour.r()) + 0.7152 * part(colour.g()) + 0.0722 * part(colour.b())
    }

    fn contrast(a: Color32, b: Color32) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn words_can_be_read_on_what_is_behind_them() {
        for c in [&DARK, &LIGHT] {
            for behind in [c.back, c.panel, c.stripe] {
                assert!(contrast(c.text, behind) > 7.0);
                for ink in [c.dim, c.accent, c.slow, c.bad, c.missed, c.good].iter().chain(&c.series) {
                    assert!(contrast(*ink, behind) > 4.5, "{ink:?} on {behind:?} {}", contrast(*ink, behind));
                }
            }
        }
    }
}
