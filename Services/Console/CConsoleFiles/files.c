// Written by scripts/console-files.
#include "CConsoleFiles.h"

#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char file_api_js[] = {
#embed "../Web/api.js"
};
static const unsigned char file_author_js[] = {
#embed "../Web/author.js"
};
static const unsigned char file_console_css[] = {
#embed "../Web/console.css"
};
static const unsigned char file_dql_js[] = {
#embed "../Web/dql.js"
};
static const unsigned char file_exact_js[] = {
#embed "../Web/exact.js"
};
static const unsigned char file_files_js[] = {
#embed "../Web/files.js"
};
static const unsigned char file_format_js[] = {
#embed "../Web/format.js"
};
static const unsigned char file_icon_svg[] = {
#embed "../Web/icon.svg"
};
static const unsigned char file_index_html[] = {
#embed "../Web/index.html"
};
static const unsigned char file_language_js[] = {
#embed "../Web/language.js"
};
static const unsigned char file_main_js[] = {
#embed "../Web/main.js"
};
static const unsigned char file_pages_access_js[] = {
#embed "../Web/pages/access.js"
};
static const unsigned char file_pages_account_js[] = {
#embed "../Web/pages/account.js"
};
static const unsigned char file_pages_api_js[] = {
#embed "../Web/pages/api.js"
};
static const unsigned char file_pages_attachments_js[] = {
#embed "../Web/pages/attachments.js"
};
static const unsigned char file_pages_data_js[] = {
#embed "../Web/pages/data.js"
};
static const unsigned char file_pages_document_js[] = {
#embed "../Web/pages/document.js"
};
static const unsigned char file_pages_events_js[] = {
#embed "../Web/pages/events.js"
};
static const unsigned char file_pages_health_js[] = {
#embed "../Web/pages/health.js"
};
static const unsigned char file_pages_join_js[] = {
#embed "../Web/pages/join.js"
};
static const unsigned char file_pages_live_js[] = {
#embed "../Web/pages/live.js"
};
static const unsigned char file_pages_log_js[] = {
#embed "../Web/pages/log.js"
};
static const unsigned char file_pages_operations_js[] = {
#embed "../Web/pages/operations.js"
};
static const unsigned char file_pages_overview_js[] = {
#embed "../Web/pages/overview.js"
};
static const unsigned char file_pages_people_js[] = {
#embed "../Web/pages/people.js"
};
static const unsigned char file_pages_query_js[] = {
#embed "../Web/pages/query.js"
};
static const unsigned char file_pages_settings_js[] = {
#embed "../Web/pages/settings.js"
};
static const unsigned char file_pages_statements_js[] = {
#embed "../Web/pages/statements.js"
};
static const unsigned char file_pages_storage_js[] = {
#embed "../Web/pages/storage.js"
};
static const unsigned char file_pages_sync_js[] = {
#embed "../Web/pages/sync.js"
};
static const unsigned char file_pages_welcome_js[] = {
#embed "../Web/pages/welcome.js"
};
static const unsigned char file_parts_activity_js[] = {
#embed "../Web/parts/activity.js"
};
static const unsigned char file_parts_attachment_js[] = {
#embed "../Web/parts/attachment.js"
};
static const unsigned char file_parts_basics_js[] = {
#embed "../Web/parts/basics.js"
};
static const unsigned char file_parts_bundle_js[] = {
#embed "../Web/parts/bundle.js"
};
static const unsigned char file_parts_change_js[] = {
#embed "../Web/parts/change.js"
};
static const unsigned char file_parts_chart_js[] = {
#embed "../Web/parts/chart.js"
};
static const unsigned char file_parts_columns_js[] = {
#embed "../Web/parts/columns.js"
};
static const unsigned char file_parts_conflicts_js[] = {
#embed "../Web/parts/conflicts.js"
};
static const unsigned char file_parts_editor_js[] = {
#embed "../Web/parts/editor.js"
};
static const unsigned char file_parts_field_js[] = {
#embed "../Web/parts/field.js"
};
static const unsigned char file_parts_filter_js[] = {
#embed "../Web/parts/filter.js"
};
static const unsigned char file_parts_followed_js[] = {
#embed "../Web/parts/followed.js"
};
static const unsigned char file_parts_forms_js[] = {
#embed "../Web/parts/forms.js"
};
static const unsigned char file_parts_menu_js[] = {
#embed "../Web/parts/menu.js"
};
static const unsigned char file_parts_palette_js[] = {
#embed "../Web/parts/palette.js"
};
static const unsigned char file_parts_plan_js[] = {
#embed "../Web/parts/plan.js"
};
static const unsigned char file_parts_plot_js[] = {
#embed "../Web/parts/plot.js"
};
static const unsigned char file_parts_presence_js[] = {
#embed "../Web/parts/presence.js"
};
static const unsigned char file_parts_results_js[] = {
#embed "../Web/parts/results.js"
};
static const unsigned char file_parts_rights_js[] = {
#embed "../Web/parts/rights.js"
};
static const unsigned char file_parts_shell_js[] = {
#embed "../Web/parts/shell.js"
};
static const unsigned char file_parts_signin_js[] = {
#embed "../Web/parts/signin.js"
};
static const unsigned char file_parts_table_js[] = {
#embed "../Web/parts/table.js"
};
static const unsigned char file_parts_tester_js[] = {
#embed "../Web/parts/tester.js"
};
static const unsigned char file_parts_undo_js[] = {
#embed "../Web/parts/undo.js"
};
static const unsigned char file_parts_value_js[] = {
#embed "../Web/parts/value.js"
};
static const unsigned char file_parts_warnings_js[] = {
#embed "../Web/parts/warnings.js"
};
static const unsigned char file_reversal_js[] = {
#embed "../Web/reversal.js"
};
static const unsigned char file_route_js[] = {
#embed "../Web/route.js"
};
static const unsigned char file_schema_js[] = {
#embed "../Web/schema.js"
};
static const unsigned char file_store_js[] = {
#embed "../Web/store.js"
};
static const unsigned char file_vendor_codemirror_closebrackets_js[] = {
#embed "../Web/vendor/codemirror-closebrackets.js"
};
static const unsigned char file_vendor_codemirror_hint_js[] = {
#embed "../Web/vendor/codemirror-hint.js"
};
static const unsigned char file_vendor_codemirror_matchbrackets_js[] = {
#embed "../Web/vendor/codemirror-matchbrackets.js"
};
static const unsigned char file_vendor_codemirror_simple_js[] = {
#embed "../Web/vendor/codemirror-simple.js"
};
static const unsigned char file_vendor_codemirror_css[] = {
#embed "../Web/vendor/codemirror.css"
};
static const unsigned char file_vendor_codemirror_js[] = {
#embed "../Web/vendor/codemirror.js"
};
static const unsigned char file_vendor_preact_js[] = {
#embed "../Web/vendor/preact.js"
};

static const struct mimeo_console_file files[] = {
    {"api.js", file_api_js, sizeof file_api_js},
    {"author.js", file_author_js, sizeof file_author_js},
    {"console.css", file_console_css, sizeof file_console_css},
    {"dql.js", file_dql_js, sizeof file_dql_js},
    {"exact.js", file_exact_js, sizeof file_exact_js},
    {"files.js", file_files_js, sizeof file_files_js},
    {"format.js", file_format_js, sizeof file_format_js},
    {"icon.svg", file_icon_svg, sizeof file_icon_svg},
    {"index.html", file_index_html, sizeof file_index_html},
    {"language.js", file_language_js, sizeof file_language_js},
    {"main.js", file_main_js, sizeof file_main_js},
    {"pages/access.js", file_pages_access_js, sizeof file_pages_access_js},
    {"pages/account.js", file_pages_account_js, sizeof file_pages_account_js},
    {"pages/api.js", file_pages_api_js, sizeof file_pages_api_js},
    {"pages/attachments.js", file_pages_attachments_js, sizeof file_pages_attachments_js},
    {"pages/data.js", file_pages_data_js, sizeof file_pages_data_js},
    {"pages/document.js", file_pages_document_js, sizeof file_pages_document_js},
    {"pages/events.js", file_pages_events_js, sizeof file_pages_events_js},
    {"pages/health.js", file_pages_health_js, sizeof file_pages_health_js},
    {"pages/join.js", file_pages_join_js, sizeof file_pages_join_js},
    {"pages/live.js", file_pages_live_js, sizeof file_pages_live_js},
    {"pages/log.js", file_pages_log_js, sizeof file_pages_log_js},
    {"pages/operations.js", file_pages_operations_js, sizeof file_pages_operations_js},
    {"pages/overview.js", file_pages_overview_js, sizeof file_pages_overview_js},
    {"pages/people.js", file_pages_people_js, sizeof file_pages_people_js},
    {"pages/query.js", file_pages_query_js, sizeof file_pages_query_js},
    {"pages/settings.js", file_pages_settings_js, sizeof file_pages_settings_js},
    {"pages/statements.js", file_pages_statements_js, sizeof file_pages_statements_js},
    {"pages/storage.js", file_pages_storage_js, sizeof file_pages_storage_js},
    {"pages/sync.js", file_pages_sync_js, sizeof file_pages_sync_js},
    {"pages/welcome.js", file_pages_welcome_js, sizeof file_pages_welcome_js},
    {"parts/activity.js", file_parts_activity_js, sizeof file_parts_activity_js},
    {"parts/attachment.js", file_parts_attachment_js, sizeof file_parts_attachment_js},
    {"parts/basics.js", file_parts_basics_js, sizeof file_parts_basics_js},
    {"parts/bundle.js", file_parts_bundle_js, sizeof file_parts_bundle_js},
    {"parts/change.js", file_parts_change_js, sizeof file_parts_change_js},
    {"parts/chart.js", file_parts_chart_js, sizeof file_parts_chart_js},
    {"parts/columns.js", file_parts_columns_js, sizeof file_parts_columns_js},
    {"parts/conflicts.js", file_parts_conflicts_js, sizeof file_parts_conflicts_js},
    {"parts/editor.js", file_parts_editor_js, sizeof file_parts_editor_js},
    {"parts/field.js", file_parts_field_js, sizeof file_parts_field_js},
    {"parts/filter.js", file_parts_filter_js, sizeof file_parts_filter_js},
    {"parts/followed.js", file_parts_followed_js, sizeof file_parts_followed_js},
    {"parts/forms.js", file_parts_forms_js, sizeof file_parts_forms_js},
    {"parts/menu.js", file_parts_menu_js, sizeof file_parts_menu_js},
    {"parts/palette.js", file_parts_palette_js, sizeof file_parts_palette_js},
    {"parts/plan.js", file_parts_plan_js, sizeof file_parts_plan_js},
    {"parts/plot.js", file_parts_plot_js, sizeof file_parts_plot_js},
    {"parts/presence.js", file_parts_presence_js, sizeof file_parts_presence_js},
    {"parts/results.js", file_parts_results_js, sizeof file_parts_results_js},
    {"parts/rights.js", file_parts_rights_js, sizeof file_parts_rights_js},
    {"parts/shell.js", file_parts_shell_js, sizeof file_parts_shell_js},
    {"parts/signin.js", file_parts_signin_js, sizeof file_parts_signin_js},
    {"parts/table.js", file_parts_table_js, sizeof file_parts_table_js},
    {"parts/tester.js", file_parts_tester_js, sizeof file_parts_tester_js},
    {"parts/undo.js", file_parts_undo_js, sizeof file_parts_undo_js},
    {"parts/value.js", file_parts_value_js, sizeof file_parts_value_js},
    {"parts/warnings.js", file_parts_warnings_js, sizeof file_parts_warnings_js},
    {"reversal.js", file_reversal_js, sizeof file_reversal_js},
    {"route.js", file_route_js, sizeof file_route_js},
    {"schema.js", file_schema_js, sizeof file_schema_js},
    {"store.js", file_store_js, sizeof file_store_js},
    {"vendor/codemirror-closebrackets.js", file_vendor_codemirror_closebrackets_js, sizeof file_vendor_codemirror_closebrackets_js},
    {"vendor/codemirror-hint.js", file_vendor_codemirror_hint_js, sizeof file_vendor_codemirror_hint_js},
    {"vendor/codemirror-matchbrackets.js", file_vendor_codemirror_matchbrackets_js, sizeof file_vendor_codemirror_matchbrackets_js},
    {"vendor/codemirror-simple.js", file_vendor_codemirror_simple_js, sizeof file_vendor_codemirror_simple_js},
    {"vendor/codemirror.css", file_vendor_codemirror_css, sizeof file_vendor_codemirror_css},
    {"vendor/codemirror.js", file_vendor_codemirror_js, sizeof file_vendor_codemirror_js},
    {"vendor/preact.js", file_vendor_preact_js, sizeof file_vendor_preact_js},
};

size_t mimeo_console_file_count(void) { return sizeof files / sizeof files[0]; }
struct mimeo_console_file mimeo_console_file_at(size_t index) { return files[index]; }
