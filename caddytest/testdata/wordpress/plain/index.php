<?php // A theme that shows nothing.
