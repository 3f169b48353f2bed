//! Sizes, fonts and colours of pictures on light and dark pages.
//!
//! plotters writes colours as attributes, which a style sheet can override. Each picture contains a style sheet that
//! replaces the colours of light pages by those of dark pages.

use std::fmt::Write as _;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

pub(crate) const WIDTH: u32 = 960;
/// Font size. plotters draws letters with four fifths of this size.
pub(crate) const SMALL: u32 = 17;

/// A colour on light pages and its replacement on dark pages.
#[derive(Clone, Copy)]
struct Pair(RGBColor, RGBColor);

const PAGE: Pair = Pair(RGBColor(255, 255, 255), RGBColor(13, 17, 23));
const INK: Pair = Pair(RGBColor(31, 35, 40), RGBColor(230, 237, 243));
const MUTED: Pair = Pair(RGBColor(89, 99, 110), RGBColor(154, 165, 177));
const GRID: Pair = Pair(RGBColor(223, 228, 233), RGBColor(50, 58, 68));
/// Colours that readers with colour blindness can distinguish, after M. Okabe and K. Ito, Color Universal Design.
const SERIES: [Pair; 3] = [
    Pair(RGBColor(0, 96, 160), RGBColor(92, 176, 240)),
    Pair(RGBColor(200, 82, 0), RGBColor(255, 148, 77)),
    Pair(RGBColor(0, 128, 96), RGBColor(60, 200, 160)),
];

/// Returns the background. The background is drawn, because the page around the picture may be
/// light although the reader's system is set to dark, or the reverse.
pub(crate) const fn page() -> RGBColor {
    PAGE.0
}

pub(crate) const fn ink() -> RGBColor {
    INK.0
}

pub(crate) const fn muted() -> RGBColor {
    MUTED.0
}

pub(crate) const fn grid() -> RGBColor {
    GRID.0
}

/// Returns the colour of the series with this index.
pub(crate) const fn series(index: usize) -> RGBColor {
    SERIES[index % SERIES.len()].0
}

pub(crate) fn text(size: u32, color: RGBColor) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&color)
}

/// Returns the picture that `draw` draws, with a title for screen readers.
pub(crate) fn picture(
    title: &str,
    height: u32,
    draw: impl FnOnce(&Area<'_>) -> Result<()>,
) -> Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        draw(&area)?;
        area.present().map_err(failed)?;
    }
    let label = title.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    let (start, end) =
        svg.split_once('>').ok_or_else(|| anyhow!("the picture has no first element"))?;
    Ok(format!("{start} role=\"img\" aria-label=\"{label}\">\n<style>{}</style>{end}", dark()))
}

/// Converts an error of plotters, which has no common error type.
pub(crate) fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("cannot draw: {error}")
}

fn dark() -> String {
    let mut style = "@media (prefers-color-scheme: dark) {".to_owned();
    for Pair(light, dark) in [PAGE, INK, MUTED, GRID].iter().chain(&SERIES) {
        let [from, to] = [light, dark].map(|RGBColor(r, g, b)| format!("#{r:02X}{g:02X}{b:02X}"));
        for attribute in ["fill", "stroke"] {
            // Writing to a string does not fail.
            let _: std::fmt::Result = write!(style, "[{attribute}=\"{from}\"]{{{attribute}:{to}}}");
        }
    }
    style + "}"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_colour_has_a_replacement_for_dark_pages() {
        let svg = picture("a & b", 100, |area| {
            area.draw(&Text::new("text", (5, 5), text(12, ink()))).map_err(failed)?;
            area.draw(&PathElement::new([(0, 0), (9, 9)], series(1))).map_err(failed)
        })
        .unwrap();
        assert!(svg.contains("aria-label=\"a &amp; b\""), "{svg}");
        for attribute in ["fill=\"#1F2328\"", "stroke=\"#C85200\""] {
            assert_eq!(svg.matches(attribute).count(), 2, "once drawn, once in the style: {svg}");
        }
    }
}
