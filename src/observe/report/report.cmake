# The sources of `accrue report`; its page is built into the program as bytes.
set(report_web ${CMAKE_CURRENT_SOURCE_DIR}/report/web)
set(report_uplot ${PROJECT_SOURCE_DIR}/third_party/uplot)
# In this order they are one script.
set(report_scripts begin.js format.js dom.js palette.js view.js tables.js series.js axes.js plot.js chart.js stack.js
                   plan.js events.js header.js sections.js main.js end.js)
set(report_assets ${CMAKE_CURRENT_BINARY_DIR}/report/web_assets.cpp)

list(TRANSFORM report_scripts PREPEND ${report_web}/ OUTPUT_VARIABLE report_script_files)
string(REPLACE ";" "|" report_script_list "${report_scripts}")
add_custom_command(
  OUTPUT ${report_assets}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${report_assets} -DWEB=${report_web} -DUPLOT=${report_uplot}
          "-DSCRIPTS=${report_script_list}" -P ${CMAKE_CURRENT_SOURCE_DIR}/report/web_assets.cmake
  DEPENDS report/web_assets.cmake ${report_script_files} ${report_web}/report.html ${report_web}/report.css
          ${report_uplot}/uPlot.iife.min.js ${report_uplot}/uPlot.min.css
  VERBATIM)

target_sources(
  accrue_observe
  PRIVATE report/chart_catalogue.cpp report/charts.cpp report/derived.cpp report/differences.cpp report/figures.cpp
          report/json_fields.cpp report/page.cpp report/plan_description.cpp report/report_data.cpp report/report_file.cpp
          report/report_json.cpp report/run_description.cpp report/shown_events.cpp report/thinning.cpp report/watch.cpp
          ${report_assets})
