#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <string>
#include <vector>

namespace accrue::cli {

struct Program;

/// The action of the parsed command line; returns the exit status.
using Action = std::function<int()>;

/// The command line as typed, with the program's name, as recorded in run.json.
using Arguments = std::vector<std::string>;

/// Each adds one verb to `app`. Parsing that verb sets `action`, which runs afterwards. `action`,
/// `typed` and `program` must outlive the parse.
void add_init(CLI::App& app, Action& action);
void add_train(CLI::App& app, Action& action, const Arguments& typed, const Program& program);
void add_data(CLI::App& app, Action& action, const Program& program);
void add_tokenize(CLI::App& app, Action& action);
void add_sample(CLI::App& app, Action& action);
void add_eval(CLI::App& app, Action& action);
void add_predict(CLI::App& app, Action& action);
void add_checkpoint(CLI::App& app, Action& action);
void add_export(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action, const Program& program);
void add_plan(CLI::App& app, Action& action, const Program& program);
void add_verify(CLI::App& app, Action& action, const Program& program);
void add_doctor(CLI::App& app, Action& action, const Program& program);
void add_report(CLI::App& app, Action& action);
void add_runs(CLI::App& app, Action& action);
void add_compare(CLI::App& app, Action& action);
void add_keys(CLI::App& app, Action& action);
/// These two describe all verbs of `app`, even those that are added later.
void add_completion(CLI::App& app, Action& action);
void add_manual(CLI::App& app, Action& action);

/// The version of accrue and of the libraries on which its numbers depend.
std::string version_text();

}  // namespace accrue::cli
