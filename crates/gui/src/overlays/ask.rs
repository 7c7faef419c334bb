//! A text prompt for an action.

use super::{Next, Overlay, modal};
use crate::ui_context::UiContext;
use egui::{Context, Key, Modifiers, RichText, TextEdit};
use magscope_scope::Scope;
use magscope_scope::command::{LineState, Question};

/// Maximum length of the text, characters.
pub const LONGEST: usize = 512;

/// An open prompt.
#[derive(Debug)]
pub struct Asked {
    question: Question,
    text: String,
    line: LineState,
    wrong: Option<String>,
}

impl Asked {
    /// A prompt with the current value.
    pub fn new(question: Question, now: String) -> Self {
        Asked { question, text: now, line: LineState::default(), wrong: None }
    }
}

pub fn show(ctx: &Context, mut asked: Asked, scope: &mut Scope, cx: &mut UiContext) -> Next {
    let mut entered = false;
    let close = modal(ctx, asked.question.title(), 560.0, |ui| {
        // Before the text field takes them.
        let pressed = |key: Key| ui.input_mut(|input| input.consume_key(Modifiers::NONE, key));
        let keys = [Key::Tab, Key::ArrowUp, Key::ArrowDown].map(pressed);
        let before = asked.text.clone();
        let line = match keys {
            [true, ..] => asked.line.tab(asked.question, &before, scope),
            [_, true, _] => asked.line.earlier(asked.question, &before, 1, scope),
            [_, _, true] => asked.line.earlier(asked.question, &before, -1, scope),
            _ => None,
        };
        let replaced = line.is_some();
        if let Some(line) = line {
            asked.text = line;
        }
        let edit = TextEdit::singleline(&mut asked.text)
            .char_limit(LONGEST)
            .desired_width(f32::INFINITY)
            .font(egui::TextStyle::Monospace);
        let response = ui.add(edit);
        if replaced && let Some(mut state) = TextEdit::load_state(ctx, response.id) {
            let end = egui::text::CCursor::new(asked.text.chars().count());
            state.cursor.set_char_range(Some(egui::text::CCursorRange::one(end)));
            state.store(ctx, response.id);
        }
        if response.changed() {
            asked.line.reset();
        }
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
