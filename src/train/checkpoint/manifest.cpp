#include "train/checkpoint/manifest.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "core/atomic_file.h"
#include "core/checksum.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* format_name = "accrue checkpoint";
constexpr std::int64_t format_version = 1;

json file_to_json(const Manifest::File& file) {
  if (file.tensors.header.empty()) return {{"bytes", file.bytes}, {"xxh3", file.checksum}};
  return {{"bytes", file.bytes},
          {"header_xxh3", file.tensors.header},
          {"tensors_xxh3", file.tensors.tensors}};
}

Manifest::File file_from_json(const json& in) {
  Manifest::File file{.bytes = in.at("bytes").get<std::int64_t>(), .checksum = {}, .tensors = {}};
  if (in.contains("xxh3")) {
    file.checksum = in["xxh3"].get<std::string>();
  } else {
    in.at("header_xxh3").get_to(file.tensors.header);
    in.at("tensors_xxh3").get_to(file.tensors.tensors);
  }
  return file;
}

Manifest manifest_from_json(const json& in) {
  Manifest manifest{.step = in.at("step").get<std::int64_t>(), .files = {}};
  for (const auto& [name, file] : in.at("files").items())
    manifest.files[name] = file_from_json(file);
  return manifest;
}

const Manifest::File& entry_of(const fs::path& checkpoint, const Manifest& manifest,
                               const std::string& name) {
  const auto found = manifest.files.find(name);
  if (found != manifest.files.end()) return found->second;
  throw not_whole(checkpoint, "a manifest.json with " + name, "one without it");
}

std::string others(std::size_t count) {
  return count == 0 ? "" : ", and so are " + std::to_string(count) + " more";
}

}  // namespace

Error not_whole(const fs::path& checkpoint, const std::string& expected,
                const std::string& received) {
  return usage_error("read checkpoint " + checkpoint.string(), expected, received,
                     "an earlier checkpoint of the run (accrue checkpoint list), or a copy of "
                     "this one");
}

void write_manifest(const fs::path& checkpoint, const Manifest& manifest) {
  json out{{"format", format_name}, {"version", format_version}, {"step", manifest.step}};
  for (const auto& [name, file] : manifest.files) out["files"][name] = file_to_json(file);
  write_file_atomically(checkpoint / manifest_file, out.dump(1) + "\n");
}

std::optional<Manifest> read_manifest(const fs::path& checkpoint) {
  std::error_code unreadable;
  if (!fs::exists(checkpoint / manifest_file, unreadable)) return std::nullopt;
  try {
    const json in = json::parse(read_file(checkpoint / manifest_file));
    if (in.at("format") != format_name || in.at("version") != format_version)
      throw not_whole(checkpoint, "a manifest.json of version " + std::to_string(format_version),
                      "another one");
    return manifest_from_json(in);
  } catch (const json::exception& error) {
    throw not_whole(checkpoint, "a manifest.json as it was written", error.what());
  }
}

void check_lengths(const fs::path& checkpoint, const Manifest& manifest) {
  for (const auto& [name, file] : manifest.files) {
    std::error_code error;
    const auto found = fs::file_size(checkpoint / name, error);
    if (error) throw not_whole(checkpoint, name, error.message());
    if (static_cast<std::int64_t>(found) != file.bytes)
      throw not_whole(checkpoint, name + " of " + std::to_string(file.bytes) + " bytes",
                      std::to_string(found) + " bytes");
  }
}

void check_tensors(const fs::path& checkpoint, const Manifest& manifest, const std::string& name) {
  const models::TensorChecksums& written = entry_of(checkpoint, manifest, name).tensors;
  const models::TensorChecksums found = models::safetensors_checksums(checkpoint / name);
  if (found == written) return;
  if (found.header != written.header)
    throw not_whole(checkpoint, name + " as it was written", "a header that changed since");
  std::vector<std::string> changed;
  for (const auto& [tensor, checksum] : found.tensors) {
    const auto before = written.tensors.find(tensor);
    if (before == written.tensors.end() || before->second != checksum) changed.push_back(tensor);
  }
  if (changed.empty()) throw not_whole(checkpoint, "a manifest.json as it was written", "another");
  throw not_whole(checkpoint, name + " as it was written",
                  "tensor \"" + changed.front() + "\" with bytes that changed since" +
                      others(changed.size() - 1));
}

void check_content(const fs::path& checkpoint, const Manifest& manifest, const std::string& name,
                   const std::string& content) {
  if (entry_of(checkpoint, manifest, name).checksum != checksum_of(content))
    throw not_whole(checkpoint, name + " as it was written", "bytes that changed since");
}

}  // namespace accrue::train
