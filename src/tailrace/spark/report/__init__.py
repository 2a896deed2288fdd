"""Pages for people: one self-contained HTML file with tiles, plots and tables, that asks nobody for anything.

    page          what is on a page, as plain values; nothing here knows what an audit is
    html          a page as one file: style and script inside, allowed by their hashes, and nothing else allowed at all
    plots, bars   charts as SVG that is as wide as its place, with text that is as large as that around it
    tables        tables that a script filters and sorts, and that are whole without one
    markup        tags and their text: nothing gets into a page unescaped
    amounts       numbers, sizes and times as people read them
    scale         round numbers for axes
    timeline      amounts by minute as bins of an even and round width
    skew          how unevenly something is shared

The standard library alone: a report can be written wherever Python runs.
"""
