//! A text prompt for an action.

use super::{Next, Overlay, modal};
use crate::ui_context::UiContext;
use egui::{Context, Key, RichText, TextEdit};
use magscope_scope::Scope;
use magscope_scope::command::Question;

/// Maximum length of the text, characters.
pub const LONGEST: usize = 512;

/// An open prompt.
#[derive(Debug)]
pub struct Asked {
    question: Question,
    text: String,
    wrong: Option<String>,
}

impl Asked {
    /// A prompt with the current value.
    pub fn new(question: Question, now: String) -> Self {
        Asked { question, text: now, wrong: None }
    }
}

pub fn show(ctx: &Context, mut asked: Asked, scope: &mut Scope, cx: &mut UiContext) -> Next {
    let mut entered = false;
    let close = modal(ctx, asked.question.title(), 560.0, |ui| {
        let edit = TextEdit::singleline(&mut asked.text)
            .char_limit(LONGEST)
            .desired_width(f32::INFINITY)
            .font(egui::TextStyle::Monospace);
        let response = ui.add(edit);
        response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::TextInput, true, asked.question.title()));
        entered = response.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
        response.request_focus();
        ui.label(RichText::new(asked.question.example()).color(cx.c.dim).small());
        if let Some(wrong) = &asked.wrong {
            ui.label(RichText::new(wrong).color(cx.c.bad));
        }
        ui.horizontal(|ui| {
            entered |= ui.button("Take").clicked();
            ui.label(RichText::new("Enter takes it, Esc leaves it").color(cx.c.dim).small());
        });
    });
    if entered {
        asked.wrong = asked.question.answer(&asked.text, scope).err();
        if asked.wrong.is_none() {
            return Next::Gone;
        }
    }
    if close { Next::Gone } else { Next::Stay(Overlay::Ask(asked)) }
}
