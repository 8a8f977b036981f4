#!/bin/bash
# Draws the pictures in docs/pictures from the texts beside them. It installs Graphviz
# and Mscgen only as root on Debian. Each picture names the hash of its text, which
# docs_pictures_test.go compares.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/debian.sh

missing=()
command -v dot >/dev/null || missing+=(graphviz)
command -v mscgen >/dev/null || missing+=(mscgen)
need "${missing[@]}"

cd docs/pictures
for text in *.dot *.msc; do
	svg=${text%.*}.svg
	case $text in
	*.dot) dot -Tsvg "$text" ;;
	# Mscgen squeezes labels for a narrower font, and puts them onto the arrows.
	*.msc) mscgen -T svg -i "$text" -o - | sed 's/ textLength="[0-9]*"//; s/font-size="12"/font-size="11" dy="-3"/' ;;
	esac >"$svg.new"
	# Behind the <svg ..> tag, which may be several lines long.
	hash=$(sha256sum <"$text" | cut -d ' ' -f 1)
	awk -v note="<!-- $text sha256:$hash -->" '
		{ print }
		/<svg/ { inside = 1 }
		inside && />/ { inside = 0; if (!done++) print note "\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>" }
	' "$svg.new" >"$svg"
	rm "$svg.new"
	grep -q "sha256:$hash" "$svg"
done
