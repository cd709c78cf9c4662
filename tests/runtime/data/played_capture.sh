#!/bin/sh
# Plays `python -m weft.capture.capture`: the graph of a problem is its text, and how
# many were asked for together. "bad" is refused; "slow" takes too long.
count=0
for word; do
  if [ "$word" = --problem ]; then count=$((count + 1)); fi
done
while [ $# -gt 0 ]; do
  case "$1" in
    --problem) problem=$(cat "$2") ;;
    --out)
      case "$problem" in
        bad)
          echo '{"ok": false, "error": {"code": "wrong_input", "message": "it is bad"}}'
          exit 1
          ;;
        slow) kill -ALRM $$ ;;
      esac
      printf '%s of %s' "$problem" "$count" >"$2"
      echo '{"ok": true, "keeps": true}'
      ;;
  esac
  shift
done
