// Package plot draws values over time for reports that are one HTML file and need nothing else: no script, no picture and no style from
// elsewhere.
//
// A Plot becomes SVG that stands in the page and takes its colours from Style, which knows light and dark, and gives a report its other parts: verdict,
// tiles, tables. All of it is well-formed XML, and whatever a name holds is written as text.
//
// A report is made in English. Page says it in another language by a table of all that reports say (ko.txt), from which names, codes and what commands printed
// are left out; plottest sees in each report's tests that nothing else is.
//
// It leaves out what to draw (audit, load, drill), and screens that change (dashboard draws in the browser).
package plot
