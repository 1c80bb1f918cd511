# Flask on the server that comes with it.
import logging
import os

from flask import Flask, request

logging.getLogger("werkzeug").setLevel(logging.ERROR)
app = Flask(__name__)


@app.post("/login", strict_slashes=False)
def login():
    return "", {"X-Action": "login"}


@app.route("/search", methods=["GET", "POST"], strict_slashes=False)
def search():
    return "", {"X-Action": "heavy"} if "heavy" in request.args.getlist("mode") else {}


app.run("127.0.0.1", int(os.environ["PORT"]))
