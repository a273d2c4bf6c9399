#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "accrue/core/units.h"
#include "cli/arguments/commands.h"
#include "cli/arguments/parse_error.h"
#include "cli/help/verb_help.h"
#include "cli/output/print_text.h"
#include "cli/process/exit_status.h"
#include "core/printable.h"
#include "train/checkpoint/checkpoint_store.h"

namespace accrue::cli {
namespace {

using nlohmann::ordered_json;
using train::StoredCheckpoint;
using train::Thoroughness;

constexpr std::int64_t most_kept = 1'000'000;  // run.keep has the same bound.

struct CheckpointArguments {
  std::string run;
  bool json = false;
  std::optional<std::int64_t> keep;
  bool damaged = false;
};

ordered_json entry_of(const StoredCheckpoint& checkpoint) {
  ordered_json out{{"step", checkpoint.step},
                   {"folder", checkpoint.folder.string()},
                   {"bytes", checkpoint.bytes},
                   {"whole", checkpoint.damage.empty()},
                   {"checksums", checkpoint.has_checksums}};
  if (!checkpoint.damage.empty()) out["damage"] = checkpoint.damage;
  if (checkpoint.best_eval) out["best_eval_loss"] = *checkpoint.best_eval;
  if (checkpoint.middle)
    out["middle"] = {{"done", checkpoint.middle->done.size()},
                     {"micro_batches", checkpoint.middle->micro_batches.size()}};
  return out;
}

void print_object(const ordered_json& out) {
  print_text("%s\n", out.dump(-1, ' ', false, ordered_json::error_handler_t::replace).c_str());
}

std::string condition_of(const StoredCheckpoint& checkpoint, Thoroughness thoroughness) {
  if (!checkpoint.damage.empty()) return "damaged";
  if (thoroughness == Thoroughness::bookkeeping) return "";
  return checkpoint.has_checksums ? "whole" : "lengths are right; it has no checksums";
}

void print_checkpoint(const StoredCheckpoint& checkpoint, Thoroughness thoroughness) {
  std::string notes = condition_of(checkpoint, thoroughness);
  const auto note = [&](const std::string& text) { notes += (notes.empty() ? "" : "; ") + text; };
  if (checkpoint.best_eval) {
    char text[48];
    std::snprintf(text, sizeof text, "best, eval_loss %.6g", *checkpoint.best_eval);
    note(text);
  }
  if (checkpoint.middle)
    note("in the middle of step " + std::to_string(checkpoint.step + 1) + ": " +
         checkpoint.middle->in_words());
  print_text("step %-10lld%-12s%s\n", static_cast<long long>(checkpoint.step),
             format_bytes(checkpoint.bytes).c_str(), notes.c_str());
  if (!checkpoint.damage.empty()) print_text("    %s\n", printable_line(checkpoint.damage).c_str());
}

int show_checkpoints(const CheckpointArguments& arguments, Thoroughness thoroughness) {
  const train::RunDirectory run(arguments.run);
  const std::vector<StoredCheckpoint> checkpoints = train::list_checkpoints(run, thoroughness);
  const std::vector<std::string> damage = thoroughness == Thoroughness::contents
                                              ? train::damage_outside_checkpoints(run)
                                              : std::vector<std::string>{};
  bool whole = damage.empty();
  ordered_json list = ordered_json::array();
  for (const StoredCheckpoint& checkpoint : checkpoints) {
    whole = whole && checkpoint.damage.empty();
    list.push_back(entry_of(checkpoint));
    if (!arguments.json) print_checkpoint(checkpoint, thoroughness);
  }
  if (arguments.json)
    print_object(
        {{"run", arguments.run}, {"whole", whole}, {"damage", damage}, {"checkpoints", list}});
  if (!arguments.json && checkpoints.empty()) print_text("no checkpoints\n");
  if (!arguments.json)
    for (const std::string& sentence : damage)
      print_text("damaged: %s\n", printable_line(sentence).c_str());
  const bool passed = whole || thoroughness == Thoroughness::bookkeeping;
  return exit_status_of_check(passed, Error::Kind::runtime);
}

ordered_json steps_of(const std::vector<StoredCheckpoint>& checkpoints) {
  ordered_json steps = ordered_json::array();
  for (const StoredCheckpoint& checkpoint : checkpoints) steps.push_back(checkpoint.step);
  return steps;
}

int run_prune(const CheckpointArguments& arguments) {
  const train::RunDirectory run(arguments.run);
  const std::int64_t keep = arguments.keep ? *arguments.keep : run.config().run.keep;
  const train::Pruned pruned = train::prune(run, keep, arguments.damaged);
  if (arguments.json) {
    print_object({{"removed", steps_of(pruned.removed)},
                  {"kept", steps_of(pruned.kept)},
                  {"remarks", pruned.remarks}});
    return 0;
  }
  for (const std::string& remark : pruned.remarks)
    print_text("note: %s\n", printable_line(remark).c_str());
  for (const StoredCheckpoint& checkpoint : pruned.removed)
    print_text("removed step %lld (%s)\n", static_cast<long long>(checkpoint.step),
               format_bytes(checkpoint.bytes).c_str());
  for (const StoredCheckpoint& checkpoint : pruned.kept)
    print_checkpoint(checkpoint, Thoroughness::contents);
  return 0;
}

CLI::App* add_action(CLI::App& verb, const char* name, const char* description,
                     const std::shared_ptr<CheckpointArguments>& arguments) {
  CLI::App* sub = verb.add_subcommand(name, description);
  sub->add_option("RUN_DIR", arguments->run, "Folder of a run")->required();
  sub->add_flag("--json", arguments->json, "One JSON object on stdout");
  return sub;
}

}  // namespace

void add_checkpoint(CLI::App& app, Action& action) {
  CLI::App* verb =
      app.add_subcommand("checkpoint", "Verify, list or prune the checkpoints of a run");
  verb->require_subcommand(1);
  set_help(*verb, {.heading = heading::runs,
                   .text = "verify reads every file and compares the checksum of each tensor, of "
                           "run.json, of the kept tokenizer and of metrics.jsonl with what was "
                           "written. Its exit status is 1 if something is damaged.",
                   .examples = {"accrue checkpoint verify runs/first",
                                "accrue checkpoint prune runs/first --keep 1"}});
  const auto arguments = std::make_shared<CheckpointArguments>();
  add_action(*verb, "verify", "Compare every checkpoint with what was written", arguments)
      ->callback([=, &action] {
        action = [=] { return show_checkpoints(*arguments, Thoroughness::contents); };
      });
  add_action(*verb, "list", "Steps, sizes and the best one", arguments)->callback([=, &action] {
    action = [=] { return show_checkpoints(*arguments, Thoroughness::bookkeeping); };
  });
  CLI::App* prune = add_action(*verb, "prune", "Remove all but the newest and the best", arguments);
  prune->add_option("--keep", arguments->keep, "How many of the newest stay (default: run.keep)")
      ->check(integer_in(1, most_kept))
      ->type_name("N");
  prune->add_flag("--damaged", arguments->damaged, "Remove damaged ones, too");
  prune->callback([=, &action] { action = [=] { return run_prune(*arguments); }; });
}

}  // namespace accrue::cli
