#include "core/loaded_libraries.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>

namespace accrue {
namespace {

namespace fs = std::filesystem;

std::size_t padded(std::size_t bytes) { return (bytes + 3) / 4 * 4; }

std::string hexadecimal(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", std::to_integer<unsigned>(byte));
    text += digits.data();
  }
  return text;
}

/// The build ID among the notes of one segment (the ELF specification, "Note Section"); empty if
/// there is none.
std::string build_id_in(std::span<const std::byte> notes) {
  constexpr std::string_view owner("GNU", 4);  // its zero is part of it
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes.data(), sizeof note);
    const std::size_t name = sizeof note, content = name + padded(note.n_namesz),
                      end = content + padded(note.n_descsz);
    if (end > notes.size()) break;
    const bool is_build_id = note.n_type == NT_GNU_BUILD_ID && note.n_namesz == owner.size() &&
                             std::memcmp(notes.data() + name, owner.data(), owner.size()) == 0;
    if (is_build_id) return hexadecimal(notes.subspan(content, note.n_descsz));
    notes = notes.subspan(end);
  }
  return {};
}

std::string build_id_of(const dl_phdr_info& object) {
  for (const ElfW(Phdr) & segment : std::span(object.dlpi_phdr, object.dlpi_phnum)) {
    if (segment.p_type != PT_NOTE) continue;
    const auto* notes = reinterpret_cast<const std::byte*>(object.dlpi_addr + segment.p_vaddr);
    if (std::string id = build_id_in({notes, segment.p_memsz}); !id.empty()) return id;
  }
  return {};
}

std::string size_of(const fs::path& file) {
  std::error_code unknown;
  const auto bytes = fs::file_size(file, unknown);
  return unknown ? std::string() : std::to_string(bytes) + " bytes";
}

/// The kernel's own object has no file.
bool has_file(const fs::path& object) { return object.has_parent_path(); }

int add_object(dl_phdr_info* object, std::size_t, void* libraries) {
  fs::path file = object->dlpi_name;
  std::error_code unknown;
  if (file.empty()) file = fs::read_symlink("/proc/self/exe", unknown);
  if (!has_file(file)) return 0;
  std::string id = build_id_of(*object);
  if (id.empty()) id = size_of(file);
  static_cast<std::map<std::string, std::string>*>(libraries)->emplace(file.filename().string(),
                                                                       std::move(id));
  return 0;
}

}  // namespace

std::map<std::string, std::string> loaded_libraries() {
  std::map<std::string, std::string> libraries;
  ::dl_iterate_phdr(add_object, &libraries);
  return libraries;
}

fs::path library_of(const void* symbol) {
  Dl_info found{};
  link_map* object = nullptr;
  if (::dladdr1(symbol, &found, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP) == 0) return {};
  // The program has the name with which it was started, possibly in a folder of PATH.
  std::error_code unknown;
  const bool is_program = *object->l_name == '\0';
  return is_program ? fs::read_symlink("/proc/self/exe", unknown) : fs::path(found.dli_fname);
}

std::optional<fs::path> own_library(const std::string& name) {
  const fs::path here = library_of(reinterpret_cast<const void*>(&own_library)).parent_path();
  for (const fs::path& folder : {here, here / "../lib/accrue"})
    if (std::error_code error; fs::exists(folder / name, error)) return folder / name;
  return std::nullopt;
}

void* own_function(const std::string& library, const std::string& what, const char* name,
                   RefuseLibrary refused) {
  const auto file = own_library(library);
  if (!file) throw refused("a build with " + what, "one without " + library);
  void* const opened = ::dlopen(file->c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) throw refused(file->string() + " with all that it needs", ::dlerror());
  void* const found = ::dlsym(opened, name);
  if (found == nullptr) throw refused("the library of this version", ::dlerror());
  return found;
}

}  // namespace accrue
