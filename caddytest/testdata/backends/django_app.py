# Django as WSGI application.
import logging
import os
from wsgiref.simple_server import WSGIRequestHandler, make_server

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import re_path

logging.disable()
settings.configure(
    ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="for this test only", LOGGING_CONFIG=None,
    MIDDLEWARE=["django.middleware.common.CommonMiddleware"],
)


def login(request, **_):
    response = HttpResponse()
    if request.method == "POST":
        response["X-Action"] = "login"
    return response


def search(request, **_):
    response = HttpResponse()
    if "heavy" in request.GET.getlist("mode"):
        response["X-Action"] = "heavy"
    return response


urlpatterns = [re_path(r"^login(?:\.(?P<format>\w+))?/?$", login), re_path(r"^search(?:\.(?P<format>\w+))?/?$", search)]


class Quiet(WSGIRequestHandler):
    def log_message(self, *args):
        pass


make_server("127.0.0.1", int(os.environ["PORT"]), get_wsgi_application(), handler_class=Quiet).serve_forever()
