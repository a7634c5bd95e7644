#!/bin/bash
printf 'def greet(name):\n    return f"Hello, {name}!"\n' > greet.py
