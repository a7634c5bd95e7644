NAMES = ["Ada", "Alan"]
