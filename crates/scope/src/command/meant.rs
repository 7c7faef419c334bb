//! Actions that depend on the current view: up and down, open, next.

use super::FrontEndCommand;
use crate::look::FlowOrder;
use crate::{Action, CursorId, MeasureSpan, Roll, Room, View};

/// Rows of a page.
const PAGE: i32 = 10;

impl FrontEndCommand {
    /// The action of a command that depends on the view; `None` if only a front end can act.
    pub fn action(self, view: &View) -> Option<Action> {
        let picture = view.room == Room::Scope;
        Some(match self {
            Self::Move(by) if picture => Action::SelectJourney(by),
            Self::Move(by) => Action::SelectRow(i32::from(by)),
            Self::Page(by) if picture => Action::SelectHop(by),
            Self::Page(by) => Action::SelectRow(i32::from(by) * PAGE),
            Self::Open if picture => Action::ToggleInspector,
            Self::Order => Action::OrderFlows(match view.order {
                FlowOrder::Blame => FlowOrder::P99,
                FlowOrder::P99 => FlowOrder::Bytes,
                FlowOrder::Bytes => FlowOrder::Journeys,
                FlowOrder::Journeys => FlowOrder::Bad,
                FlowOrder::Bad => FlowOrder::Blame,
            }),
            Self::Roll => Action::SetRoll(match view.roll {
                Roll::Auto => Roll::On,
                Roll::On => Roll::Off,
                Roll::Off => Roll::Auto,
            }),
            Self::Over => Action::MeasureOver(match view.over {
                MeasureSpan::View => MeasureSpan::Cursors,
                MeasureSpan::Cursors => MeasureSpan::View,
            }),
            Self::OtherCursor => Action::ChooseCursor(match view.cursors.map(|cursors| cursors.chosen) {
                Some(CursorId::A) => CursorId::B,
                _ => CursorId::A,
            }),
            Self::Open => Action::TakeRow,
            _ => return None,
        })
    }
}
