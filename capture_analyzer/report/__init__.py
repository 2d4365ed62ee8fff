"""An analysis as one self-contained HTML file."""
