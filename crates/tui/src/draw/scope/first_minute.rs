//! Commands to try, in the empty lanes of a quiet host.

use crate::draw::canvas::{Canvas, width};
use magscope_scope::Frame;
use ratatui::layout::Rect;

/// Draws the lines in the middle of the picture; without room nothing.
pub fn draw(canvas: &mut Canvas, picture: Rect, frame: &Frame) {
    let lines = frame.suggestions();
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    if lines.is_empty() || height > picture.height {
        return;
    }
    let wide = lines.iter().map(|line| width(line)).max().unwrap_or(0).min(picture.width);
    let (left, top) = ((picture.width - wide) / 2, (picture.height - height) / 2);
    let (plain, strong) = (canvas.theme.plain, canvas.theme.strong);
    for (y, line) in (top..).zip(&lines) {
        // The grid's dots would be read as a part of a command.
        canvas.put(picture, left, y, &" ".repeat(usize::from(wide)), plain);
        canvas.put_cut(picture, left, y, wide, line, if y == top { plain } else { strong });
    }
}

#[cfg(test)]
mod tests {
    use crate::{Options, Picture};
    use magscope_core::node::NodeInfo;
    use magscope_scope::Scope;

    #[test]
    fn a_quiet_host_has_commands_to_try_in_its_lanes() {
        let options = magscope_scope::Options { suggests: true, ..magscope_scope::Options::default() };
        let mut scope = Scope::new(NodeInfo::default(), options);
        let lines = |scope: &mut Scope, size: &str| {
            let picture: Picture = size.parse().expect("a size");
            picture.text(scope, Options::default(), "", &mut |_| Ok(())).expect("nothing is read")
        };
        assert!(!lines(&mut scope, "80x24").contains("magnet-scope demo"), "it has only begun");
        scope.tick(3_000_000_000);
        for command in ["no traffic here yet", "magnet-scope demo", "magnet-scope run -- curl …"] {
            assert!(lines(&mut scope, "80x24").contains(command), "{}", lines(&mut scope, "80x24"));
        }
        // Any size is drawn.
        for (columns, rows) in [(10, 10), (41, 11), (60, 12), (200, 60)] {
            lines(&mut scope, &format!("{columns}x{rows}"));
        }
    }
}
