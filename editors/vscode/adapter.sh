#!/bin/sh
# VS Code starts this file; the adapter is the command line itself, wherever it is installed.
exec "${HEADGATE:-headgate}" policy debug
