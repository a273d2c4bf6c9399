#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "accrue/core/units.h"
#include "cli/arguments/commands.h"
#include "cli/help/verb_help.h"
#include "core/printable.h"
#include "core/words.h"
#include "observe/report/report_file.h"
#include "observe/report/watch.h"

namespace accrue::cli {
namespace {

namespace fs = std::filesystem;
using observe::WrittenReport;

struct ReportArguments {
  std::vector<std::string> runs;
  std::string out;
  bool watch = false;
};

/// Prints remarks that were not printed before.
void tell_remarks(const std::vector<std::string>& remarks, std::set<std::string>& told) {
  for (const std::string& remark : remarks)
    if (told.insert(remark).second) std::cerr << "note: " << printable_line(remark) << std::endl;
}

void tell(const WrittenReport& written, const fs::path& file) {
  std::cout << "report       " << printable_line(file.string()) << " ("
            << format_bytes(static_cast<std::int64_t>(written.bytes)) << ", to step "
            << digit_groups(written.last_step) << ")" << std::endl;
}

/// Writes the report again whenever the runs have changed, for ever. An error may be temporary (a
/// disk that was full): it is printed, and the report is tried again.
[[noreturn]] void keep_fresh(const std::vector<fs::path>& runs, const fs::path& file,
                             std::string seen, std::set<std::string> told) {
  using Clock = std::chrono::steady_clock;
  double pause = observe::pause_after(0);
  while (true) {
    std::this_thread::sleep_for(std::chrono::duration<double>(pause));
    const std::string now = observe::state_of_run_files(runs);
    if (now == seen) continue;
    const Clock::time_point begin = Clock::now();
    try {
      tell_remarks(observe::write_report(runs, file).remarks, told);
      seen = now;
    } catch (const std::exception& error) {
      tell_remarks({error.what()}, told);
    }
    pause = observe::pause_after(std::chrono::duration<double>(Clock::now() - begin).count());
  }
}

int run_report(const ReportArguments& arguments) {
  const std::vector<fs::path> runs(arguments.runs.begin(), arguments.runs.end());
  const fs::path file =
      arguments.out.empty() ? observe::default_report_file(runs) : fs::path(arguments.out);
  const std::string state = observe::state_of_run_files(runs);
  const WrittenReport written = observe::write_report(runs, file);
  std::set<std::string> told;
  tell_remarks(written.remarks, told);
  tell(written, file);
  if (!arguments.watch) return 0;
  std::cout << "watching     it is written again whenever the run goes on; Ctrl-C ends this"
            << std::endl;
  keep_fresh(runs, file, state, std::move(told));
}

}  // namespace

void add_report(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("report", "Show runs as one HTML page");
  set_help(
      *verb,
      {.heading = heading::runs,
       .text =
           "The page is one file that needs no network: losses, speed, memory, the plan, events, "
           "config. Several runs share the charts, with the differences between their configs. The "
           "page of one run is report.html in its folder, of several runs in the current folder.",
       .examples = {"accrue report runs/first",
                    "accrue report runs/first runs/second --out both.html"}});
  const auto arguments = std::make_shared<ReportArguments>();
  verb->add_option("RUN_DIR", arguments->runs, "Folders of runs")->required();
  verb->add_option("--out", arguments->out, "The file to write")->type_name("FILE.html");
  verb->add_flag("--watch", arguments->watch, "Write it again whenever a run goes on");
  verb->callback([=, &action] { action = [=] { return run_report(*arguments); }; });
}

}  // namespace accrue::cli
