#pragma once

#include <filesystem>

/// A run's event files, events.out.tfevents.<time>.<host>.<process>, one for each attempt at it.
namespace accrue::observe {

/// The file of an attempt that begins now (Unix time), which does not exist yet. Its name sorts
/// after the existing ones, whatever the clock: TensorBoard reads files in the order of names.
std::filesystem::path new_event_file(const std::filesystem::path& folder, double now);

/// Removes a folder of event files, unless anything else is in it.
void remove_event_files(const std::filesystem::path& folder);

}  // namespace accrue::observe
