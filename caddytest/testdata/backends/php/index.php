<?php
// A front controller: what is no file comes here, and is routed by its path.
$path = $_SERVER['PATH_INFO'] ?? '';
if ($path === '') {
    $path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH) ?: '/';
}
$path = '/' . trim(rawurldecode($path), '/');
$path = preg_replace('~^/index\.php(?=/|$)~', '', $path) ?: '/';
$modes = (array) ($_GET['mode'] ?? []);
array_walk_recursive($modes, function ($mode) use (&$heavy) { $heavy = $heavy || $mode === 'heavy'; });
if ($path === '/login' && $_SERVER['REQUEST_METHOD'] === 'POST') {
    header('X-Action: login');
} elseif ($path === '/search' && $heavy) {
    header('X-Action: heavy');
} else {
    http_response_code(404);
}
