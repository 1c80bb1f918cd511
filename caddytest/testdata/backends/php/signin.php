<?php
// A page of its own.
if ($_SERVER['REQUEST_METHOD'] === 'POST') {
    header('X-Action: signin');
}
