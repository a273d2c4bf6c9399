#include <ctime>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/arguments/commands.h"
#include "cli/help/verb_help.h"
#include "cli/output/run_text.h"
#include "cli/output/text_table.h"
#include "core/words.h"
#include "observe/history/run_list.h"

namespace accrue::cli {
namespace {

using Json = nlohmann::ordered_json;
using observe::ListedRun;
using observe::RunResult;

struct RunsArguments {
  std::string folder;
  bool json = false;
};

std::string usual_folder() {
  std::error_code error;
  return std::filesystem::is_directory("runs", error) ? "runs" : ".";
}

std::string path_of(const ListedRun& run) { return run.root.lexically_normal().string(); }

std::string rate_name(observe::SpeedUnit unit) {
  return std::string(observe::speed_unit_words.of(unit)) + "_per_second";
}

Json entry_of(const ListedRun& run) {
  const RunResult& result = run.result;
  Json json{{"path", path_of(run)}, {"state", observe::run_state_words.of(result.state)}};
  const auto put = [&](const std::string& name, const auto& value) {
    if (value) json[name] = *value;
  };
  put("step", result.last_step);
  put("total_steps", result.total_steps);
  put("loss", result.last_loss);
  put("eval_loss", result.eval_loss);
  if (result.speed) json[rate_name(result.speed->unit)] = result.speed->per_second;
  if (result.peak_bytes) json["peak_bytes"] = static_cast<std::int64_t>(*result.peak_bytes);
  put("started", result.started);
  put("ended", result.ended);
  json["remarks"] = run.remarks;
  return json;
}

void print_json_of(const std::vector<ListedRun>& runs) {
  Json json{{"runs", Json::array()}};
  for (const ListedRun& run : runs) json["runs"].push_back(entry_of(run));
  // Names of folders may be any bytes.
  std::cout << json.dump(2, ' ', false, Json::error_handler_t::replace) << std::endl;
}

std::string step_text(const RunResult& result) {
  std::string text = result.last_step ? digit_groups(*result.last_step) : "-";
  if (result.total_steps) text += "/" + digit_groups(*result.total_steps);
  return text;
}

std::string speed_text(const RunResult& result) {
  if (!result.speed) return "-";
  return rate_text(result.speed->per_second) + " " +
         std::string(observe::speed_unit_words.of(result.speed->unit)) + "/s";
}

/// A time in UTC converted to the local time, to the minute; unchanged if it has another form.
std::string local_time(const std::optional<std::string>& utc) {
  if (!utc) return "-";
  std::tm parts{};
  if (::strptime(utc->c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts) == nullptr) return *utc;
  const std::time_t seconds = ::timegm(&parts);
  char text[32];
  std::tm local{};
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", ::localtime_r(&seconds, &local));
  return text;
}

std::string loss_cell(const std::optional<double>& loss) { return loss ? loss_text(*loss) : "-"; }

void print_table_of(const std::vector<ListedRun>& runs) {
  using enum TextTable::Side;
  TextTable table({{"run"},
                   {"state"},
                   {"step", right},
                   {"loss", right, 1},
                   {"eval loss", right, 2},
                   {"speed", right, 3},
                   {"started", left, 4},
                   {"ended", left, 5}});
  for (const ListedRun& run : runs)
    table.add_row({path_of(run), std::string(observe::run_state_words.of(run.result.state)),
                   step_text(run.result), loss_cell(run.result.last_loss),
                   loss_cell(run.result.eval_loss), speed_text(run.result),
                   local_time(run.result.started), local_time(run.result.ended)});
  for (const std::string& line : table.lines(output_width())) std::cout << line << '\n';
}

void print_remarks(const std::vector<ListedRun>& runs) {
  for (const ListedRun& run : runs)
    for (const std::string& remark : run.remarks)
      std::cout << "note: " << path_of(run) << "/" << remark << '\n';
}

int run_runs(const RunsArguments& arguments) {
  const std::string folder = arguments.folder.empty() ? usual_folder() : arguments.folder;
  const std::vector<ListedRun> runs = observe::list_runs(folder);
  if (arguments.json) {
    print_json_of(runs);
  } else if (runs.empty()) {
    std::cout << "no runs in " << folder << '\n';
  } else {
    print_table_of(runs);
    print_remarks(runs);
  }
  return 0;
}

}  // namespace

void add_runs(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("runs", "List runs with their state, step, loss and speed");
  set_help(
      *verb,
      {.heading = heading::runs,
       .text =
           "The run that started last comes first. Runs are searched down to four folders below "
           "DIR; other folders are left out. On a terminal, columns without room are left out.",
       .examples = {"accrue runs", "accrue runs experiments --json"}});
  auto arguments = std::make_shared<RunsArguments>();
  verb->add_option("DIR", arguments->folder, "Folder with runs (default: runs, else this one)");
  verb->add_flag("--json", arguments->json, "Print one JSON object");
  verb->callback([=, &action] { action = [=] { return run_runs(*arguments); }; });
}

}  // namespace accrue::cli
