#include "cli/arguments/resume_command.h"

#include "cli/output/shell_words.h"

namespace accrue::cli {
namespace {

std::string words_of_torchrun(const distributed::Launch& launch) {
  std::string words = "torchrun --no-python ";
  if (launch.world > launch.local_world)
    words += "--nnodes=" + std::to_string(launch.world / launch.local_world) + " ";
  return words + "--nproc-per-node=" + std::to_string(launch.local_world) + " ";
}

/// Empty if the ranks were started by hand: each is then started again in the same way.
std::string words_of_launcher(const distributed::Launch& launch) {
  switch (launch.how) {
    case distributed::Launcher::torchrun:
      return launch.run_id.empty() && launch.local_world == 1 ? "" : words_of_torchrun(launch);
    case distributed::Launcher::mpirun:
      return "mpirun -n " + std::to_string(launch.world) + " ";
    case distributed::Launcher::srun:
      return "srun -n " + std::to_string(launch.world) + " ";
    case distributed::Launcher::none:
      break;
  }
  return "";
}

}  // namespace

std::string resume_command(const std::string& config, const std::vector<std::string>& overrides,
                           const distributed::Launch& launch) {
  std::string command = words_of_launcher(launch) + "accrue train " + shell_word(config);
  for (const std::string& text : overrides) command += " " + shell_word("--" + text);
  return command + " --resume";
}

}  // namespace accrue::cli
