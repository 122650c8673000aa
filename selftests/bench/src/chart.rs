// SPDX-License-Identifier: GPL-2.0

//! Charts of the table: the ratios, the growth with the number of registrations, and other ways to
//! record.

use crate::figures::Table;
use crate::page::is_compared;
use crate::rows::alternatives::{Way, KERNELS, OURS as OUR_WAY, PAYLOADS, WAYS};
use crate::rows::table::{in_full, GROWTH};
use std::fmt::Write;

/// Draws all charts; returns them with the names of their files.
pub fn all(table: &Table) -> [(&'static str, String); 3] {
    [
        ("ratios.svg", ratios(table)),
        ("growth.svg", growth(table)),
        ("alternatives.svg", alternatives(table)),
    ]
}

/// Names and colours of the two implementations.
const C: (&str, &str) = ("C", "#b35806");
const OURS: (&str, &str) = ("module", "#2166ac");

/// Begins a picture of this size in pixels. Its white background keeps the dark text readable on
/// any page.
fn begin(width: usize, height: usize, title: &str) -> String {
    let mut svg = String::new();
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n\
         <!-- SPDX-License-Identifier: GPL-2.0 -->\n\
         <title>{title}</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n\
         <text x=\"12\" y=\"22\" font-size=\"15\">{title}</text>"
    );
    svg
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, content: &str) {
    let content = content.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{content}</text>"
    );
}

fn line(svg: &mut String, from: (f64, f64), to: (f64, f64), style: &str) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ = writeln!(
        svg,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {style}/>"
    );
}

/// Draws a bar, with the upper left corner and the size given.
fn bar(svg: &mut String, corner: (f64, f64), size: (f64, f64), style: &str) {
    let ((x, y), (width, height)) = (corner, size);
    let _ = writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" {style}/>"
    );
}

/// Draws a bar for each ratio of the module's count to C's. The axis is logarithmic, so that a
/// tenth and ten times are equally far from the middle.
fn ratios(table: &Table) -> String {
    const LEFT: f64 = 540.0;
    const WIDTH: f64 = 480.0;
    const TOP: f64 = 60.0;
    const STEP: f64 = 18.0;
    const MIN_RATIO: f64 = 0.02;
    const MAX_RATIO: f64 = 5.0;
    let at = |ratio: f64| {
        let part =
            (ratio.clamp(MIN_RATIO, MAX_RATIO) / MIN_RATIO).ln() / (MAX_RATIO / MIN_RATIO).ln();
        LEFT + WIDTH * part
    };
    let rows = in_full().into_iter().filter_map(|(row, what)| {
        let ratio = table.figures.get(row.key)?.ratio()?;
        (is_compared(row) && !row.is_copy).then_some((what, ratio))
    });
    let rows: Vec<_> = rows.collect();
    let bottom = TOP + STEP * rows.len() as f64;
    let title = "The module's cost as a part of the C implementation's: instructions, or bytes or times where a row has them";
    let mut svg = begin(1080, bottom as usize + 14, title);
    for mark in [0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0] {
        let x = at(mark);
        let style = match mark == 1.0 {
            true => "stroke=\"#222\"",
            false => "stroke=\"#ddd\"",
        };
        line(&mut svg, (x, TOP - 6.0), (x, bottom), style);
        text(&mut svg, x, TOP - 12.0, "middle", &format!("{mark}"));
    }
    for (i, (what, ratio)) in rows.iter().enumerate() {
        let y = TOP + STEP * i as f64;
        let (from, to) = (at(ratio.min(1.0)), at(ratio.max(1.0)));
        let (_, colour) = if *ratio > 1.0 { C } else { OURS };
        text(&mut svg, LEFT - 8.0, y + 12.0, "end", what);
        let size = ((to - from).max(1.0), STEP - 6.0);
        let style = format!("fill=\"{colour}\"");
        bar(&mut svg, (from, y + 3.0), size, &style);
        let ratio = format!("{ratio:.2}");
        text(&mut svg, to + 5.0, y + 12.0, "start", &ratio);
    }
    svg.push_str("</svg>\n");
    svg
}

/// Distance of the marks of an axis that ends at `most`: three to six, at round numbers.
fn step(most: f64) -> f64 {
    let power = 10f64.powf(most.log10().floor());
    match most / power {
        part if part < 1.5 => power / 4.0,
        part if part < 3.0 => power / 2.0,
        part if part < 6.0 => power,
        _ => power * 2.0,
    }
}

/// Draws a panel for each operation. Both axes begin at zero.
fn growth(table: &Table) -> String {
    const SIDE: f64 = 250.0;
    const GAP: f64 = 70.0;
    const TOP: f64 = 70.0;
    let width = GAP + (SIDE + GAP) * GROWTH.len() as f64;
    let title = "Instructions, upwards, by the number of registrations there are";
    let mut svg = begin(width as usize, (TOP + SIDE) as usize + 34, title);
    for (i, (name, colour)) in [C, OURS].into_iter().enumerate() {
        let x = width - 190.0 + 80.0 * i as f64;
        line(&mut svg, (x, 18.0), (x + 18.0, 18.0), &stroke(colour));
        text(&mut svg, x + 22.0, 22.0, "start", name);
    }
    for (i, (what, rows)) in GROWTH.iter().enumerate() {
        let left = GAP + (SIDE + GAP) * i as f64;
        // Number of registrations, C's cost, the module's cost.
        let points = rows.iter().filter_map(|(registrations, key)| {
            let figure = table.figures.get(*key)?;
            let (c, ours) = (figure.other? as f64, figure.ours as f64);
            Some((f64::from(*registrations), c, ours))
        });
        let points: Vec<_> = points.collect();
        let (mut most, mut high) = (1f64, 1f64);
        for (registrations, c, ours) in &points {
            (most, high) = (most.max(*registrations), high.max(c.max(*ours)));
        }
        let x_of = |x: f64| left + SIDE * x / most;
        let y_of = |cost: f64| TOP + SIDE * (1.0 - cost / high);
        text(&mut svg, left, TOP - 14.0, "start", what);
        let marks = |most: f64| {
            let step = step(most);
            (0..=(most / step) as u32).map(move |i| step * f64::from(i))
        };
        for mark in marks(high) {
            let y = y_of(mark);
            line(&mut svg, (left, y), (left + SIDE, y), "stroke=\"#ddd\"");
            text(&mut svg, left - 5.0, y + 4.0, "end", &short(mark));
        }
        for mark in marks(most) {
            let x = x_of(mark);
            line(&mut svg, (x, TOP), (x, TOP + SIDE), "stroke=\"#ddd\"");
            text(&mut svg, x, TOP + SIDE + 16.0, "middle", &short(mark));
        }
        for (of_c, (_, colour)) in [(true, C), (false, OURS)] {
            let points = points.iter().map(|(x, c, ours)| {
                let cost = if of_c { *c } else { *ours };
                (x_of(*x), y_of(cost))
            });
            curve(&mut svg, &points.collect::<Vec<_>>(), colour);
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// Texts of the payloads, and opacity of their bars.
const BARS: [(&str, &str); 2] = [("12 bytes", "1"), ("100-byte string", "0.5")];

/// Draws a panel for each kernel, with a bar for each way and payload.
fn alternatives(table: &Table) -> String {
    const LEFT: f64 = 250.0;
    const WIDTH: f64 = 330.0;
    const GAP: f64 = 80.0;
    const TOP: f64 = 70.0;
    const BAR: f64 = 11.0;
    const STEP: f64 = 2.0 * BAR + 9.0;
    let costs = |way: &Way| PAYLOADS.map(|payload| table.alternatives.get(&way.row(payload)));
    let ways = WAYS.iter().map(|way| (way, costs(way)));
    let ways: Vec<_> = ways
        .filter(|(_, costs)| costs.iter().any(Option::is_some))
        .collect();
    let most = ways.iter().flat_map(|(_, costs)| costs.iter().flatten());
    let most = most
        .flat_map(|both| both.iter())
        .max()
        .map_or(1.0, |most| *most as f64);
    let bottom = TOP + STEP * ways.len() as f64;
    let width = LEFT + (WIDTH + GAP) * KERNELS.len() as f64;
    let title = "Instructions of a record, by the way to record it";
    let mut svg = begin(width as usize, bottom as usize + 10, title);
    let bar = |svg: &mut String, x: f64, y: f64, width: f64, colour: &str, opacity: &str| {
        let style = format!("fill=\"{colour}\" fill-opacity=\"{opacity}\"");
        bar(svg, (x, y), (width, BAR - 1.0), &style);
    };
    for (i, (payload, opacity)) in BARS.iter().enumerate() {
        let x = width - 290.0 + 100.0 * i as f64;
        bar(&mut svg, x, 12.0, 9.0, C.1, opacity);
        bar(&mut svg, x + 9.0, 12.0, 9.0, OURS.1, opacity);
        text(&mut svg, x + 24.0, 22.0, "start", payload);
    }
    for (i, (_, kernel)) in KERNELS.iter().enumerate() {
        let left = LEFT + (WIDTH + GAP) * i as f64;
        text(&mut svg, left, TOP - 14.0, "start", kernel);
        let (top, style) = ((left, TOP - 6.0), "stroke=\"#222\"");
        line(&mut svg, top, (left, bottom), style);
        for (j, (way, costs)) in ways.iter().enumerate() {
            let y = TOP + STEP * j as f64;
            if i == 0 {
                text(&mut svg, left - 8.0, y + 15.0, "end", way.text);
            }
            let (_, colour) = if way.key == OUR_WAY { OURS } else { C };
            for (k, (cost, (_, opacity))) in costs.iter().zip(BARS).enumerate() {
                let y = y + BAR * k as f64;
                if let Some(both) = cost {
                    let end = left + WIDTH * both[i] as f64 / most;
                    bar(&mut svg, left, y, end - left, colour, opacity);
                    text(&mut svg, end + 5.0, y + 9.5, "start", &both[i].to_string());
                }
            }
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn stroke(colour: &str) -> String {
    format!("stroke=\"{colour}\" stroke-width=\"2\" fill=\"none\"")
}

/// Draws points. Two points are not joined, as nothing is measured between them.
fn curve(svg: &mut String, points: &[(f64, f64)], colour: &str) {
    if points.len() > 2 {
        for pair in points.windows(2) {
            line(svg, pair[0], pair[1], &stroke(colour));
        }
    }
    for (x, y) in points {
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"
        );
    }
}

/// Shortens a number: 1000000 is 1M.
fn short(number: f64) -> String {
    match number {
        _ if number >= 1e6 => format!("{}M", number / 1e6),
        _ if number >= 1e3 => format!("{}k", number / 1e3),
        _ => format!("{number}"),
    }
}
