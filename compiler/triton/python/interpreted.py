_weft_interpreted = os.environ.get("TRITON_INTERPRET") == "1"
