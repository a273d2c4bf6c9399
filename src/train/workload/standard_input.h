#pragma once

#include <cstdint>
#include <filesystem>

#include "accrue/train/config.h"

namespace accrue::train {

/// The pattern of data.train that means the standard input, not a file of that name.
inline constexpr const char* kStandardInput = "-";

bool reads_standard_input(const Config& config);

/// The folder with the standard input that a run read: next to the run's folder, so that the run
/// finds it again when it is resumed.
std::filesystem::path input_folder_of(const Config& config);

/// `config` with a file in place of the standard input in data.train, which is read to its end and
/// saved in input_folder_of(), as samples are drawn from all over it; memory is bounded. If run.out
/// holds a run, its saved input is used instead, and the standard input is not read. With
/// data.format = "auto", text that begins with a JSON object is JSON lines. A config without
/// standard input stays as it is. Throws a usage Error if the config names it twice or for
/// data.val, with several `ranks`, since only one of them would get the input, with a format that
/// is not text, or if the standard input is a terminal, empty, or unreadable.
Config with_standard_input(Config config, std::int64_t ranks = 1);

}  // namespace accrue::train
