#include "core/nameless_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "accrue/core/error.h"

namespace accrue {

Descriptor nameless_file(std::string_view operation, const std::filesystem::path& folder) {
  if (Descriptor file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR));
      file)
    return file;
  // Not every file system has files that never had a name.
  std::string name = (folder / "nameless.XXXXXX").string();
  Descriptor file(::mkostemp(name.data(), O_CLOEXEC));
  if (!file)
    throw usage_error(operation, "a folder that files can be made in",
                      folder.string() + ": " + std::strerror(errno), "another folder");
  ::unlink(name.c_str());
  return file;
}

}  // namespace accrue
