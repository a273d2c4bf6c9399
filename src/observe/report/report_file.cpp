#include "observe/report/report_file.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <random>

#include "accrue/core/error.h"
#include "core/atomic_file.h"
#include "core/open_file.h"
#include "observe/report/page.h"
#include "observe/report/report_data.h"
#include "observe/report/report_json.h"

namespace accrue::observe {
namespace {

namespace fs = std::filesystem;

constexpr const char* default_name = "report.html";

std::string beginning_of(const fs::path& file) {
  std::array<char, 256> bytes{};
  std::ifstream stream = stream_to_read(file);
  stream.read(bytes.data(), bytes.size());
  return {bytes.data(), static_cast<std::size_t>(stream.gcount())};
}

std::string make_nonce() {
  std::random_device random;
  std::array<char, 33> text{};
  for (std::size_t i = 0; i < text.size() - 1; i += 8) std::snprintf(&text[i], 9, "%08x", random());
  return text.data();
}

std::string title_of(const std::vector<RunHistory>& runs) {
  if (runs.size() == 1) return runs.front().name + " - accrue";
  return std::to_string(runs.size()) + " runs - accrue";
}

}  // namespace

fs::path default_report_file(const std::vector<fs::path>& runs) {
  return runs.size() == 1 ? runs.front() / default_name : fs::path(default_name);
}

void require_report_place(const fs::path& file) {
  std::error_code ignored;
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  const auto refused = [&](const char* expected, const char* received) {
    throw usage_error("report", expected, "'" + file.string() + "', " + received,
                      "--out with another name");
  };
  if (!file.has_filename() || fs::is_directory(file, ignored))
    refused("the name of a file", "a folder");
  if (!fs::is_directory(folder, ignored))
    refused("a file in a folder that exists", "whose folder does not");
  if (fs::exists(file, ignored) && !is_page(beginning_of(file)))
    refused("a new file, or an earlier report to replace", "which is something else");
}

WrittenReport write_report(const std::vector<fs::path>& folders, const fs::path& file) {
  const std::vector<RunHistory> runs = read_runs(folders);
  require_report_place(file);
  const ReportData data = make_report_data(runs, most_numbers_of(runs.size()));
  const std::string json = to_json(data), title = title_of(runs), nonce = make_nonce();
  const std::string page = make_page({.title = title, .data_json = json, .nonce = nonce});
  write_file_atomically(file, page);
  WrittenReport written{.bytes = page.size(), .remarks = data.remarks};
  for (const RunHistory& run : runs) {
    for (const std::string& remark : run.remarks)
      written.remarks.push_back(run.name + ": " + remark);
    if (!run.table.steps.empty())
      written.last_step = std::max(written.last_step, run.table.steps.back());
  }
  return written;
}

}  // namespace accrue::observe
