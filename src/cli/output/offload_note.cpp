#include "cli/output/offload_note.h"

#include <iostream>

#include "core/printable.h"

namespace accrue::cli {

void note_offload(const train::Config& config, const std::string& command) {
  const train::MemoryConfig& memory = config.memory;
  if (memory.offload_is_auto())
    std::cerr << "note: memory.offload = \"auto\": accrue " << command
              << " keeps the state in memory, as only train and plan decide where it lies"
              << std::endl;
  if (memory.offloads())
    std::cerr << "note: memory.offload: the state lies in a file in "
              << printable_line(memory.offload) << ", as in training, but accrue " << command
              << " also runs micro-batches through the whole model, which is read into memory for "
                 "that"
              << std::endl;
}

}  // namespace accrue::cli
