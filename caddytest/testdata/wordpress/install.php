<?php
// Installs WordPress, with a user, a post and a page, and addresses such as /hello-world/.
define( 'WP_INSTALLING', true );
$_SERVER['HTTP_HOST'] = 'blog.example.com';
function wp_new_blog_notification() {} // sends a mail
require __DIR__ . '/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
wp_install( 'Blog', 'admin', 'admin@example.com', true, '', 'wonderland' );
switch_theme( 'plain' );
$wp_rewrite->set_permalink_structure( '/%postname%/' );
$wp_rewrite->flush_rules( false );
